"""The fields of messages as columns: types, values, and unsupported types."""

import enum
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pyarrow  # noqa: TID253 - it is the oracle
import pytest
from msgspec import UNSET, Meta, UnsetType
from pyspark.sql.types import StructField, StructType  # noqa: TID253

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.type_tree import tree_of
from cqrs_cli.spark.field_types import arrow_schema, column_values, field_columns
from cqrs_cli.spark.row_values import accepts_null, row_value_converter


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Price(msgspec.Struct, frozen=True, rename="camel"):
    net_amount: Decimal
    note: str | None = None


@dataclass(frozen=True)
class Place:
    street: str


class Size(TypedDict, total=False):
    wide: int


class Pair(NamedTuple):
    left: int


class Cat(msgspec.Struct, tag=True):
    lives: int


class Dog(msgspec.Struct, tag=True):
    tricks: int


class Tree(msgspec.Struct):
    below: "list[Tree]" = []


NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)

#: The annotation, its column in Spark, a value, and this value in the column.
MAPPED: list[tuple[Any, str, Any, Any]] = [
    (str, "string", "a", "a"),
    (int, "bigint", 2**62, 2**62),
    (Annotated[int, Meta(ge=0)], "bigint", 3, 3),
    (float, "double", 0.5, 0.5),
    (bool, "boolean", True, True),
    (bytes, "binary", b"a", b"a"),
    (Decimal, "decimal(38,18)", Decimal("1.5"), Decimal("1.500000000000000000")),
    (datetime, "timestamp", NOON.astimezone(timezone(timedelta(hours=2))), NOON),
    (date, "date", date(2026, 5, 1), date(2026, 5, 1)),
    (timedelta, "string", timedelta(seconds=90), "PT90S"),
    (uuid.UUID, "string", uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (Literal["a", "b"], "string", "b", "b"),
    (Literal[1, 2], "bigint", 2, 2),
    (Literal[1, "b"], "string", "b", '"b"'),
    (Colour, "string", Colour.RED, "red"),
    (Level, "bigint", Level.LOW, 1),
    (str | None, "string", None, None),
    (Colour | None, "string", None, None),
    (int | UnsetType, "bigint", UNSET, None),
    (int | str, "string", "a", '"a"'),
    (Any, "string", {"a": [1]}, '{"a":[1]}'),
    (list[int], "array<bigint>", [2, 1], [2, 1]),
    (list[Colour], "array<string>", [Colour.BLUE], ["blue"]),
    (tuple[int, ...], "array<bigint>", (1, 2), [1, 2]),
    (frozenset[str], "array<string>", frozenset("hgfedcba"), list("abcdefgh")),
    (tuple[int, str], "string", (1, "a"), '[1,"a"]'),
    (dict[str, int], "map<string,bigint>", {"a": 1}, [("a", 1)]),
    (dict[str, Colour], "map<string,string>", {"a": Colour.RED}, [("a", "red")]),
    (
        Price,
        "struct<netAmount:decimal(38,18),note:string>",
        Price(Decimal(2)),
        {"netAmount": Decimal("2.000000000000000000"), "note": None},
    ),
    (list[Place], "array<struct<street:string>>", [Place("a")], [{"street": "a"}]),
    (Size, "struct<wide:bigint>", {}, {"wide": None}),
    (Pair, "string", Pair(1), "[1]"),
    (Cat | Dog, "string", Dog(1), '{"type":"Dog","tricks":1}'),
    (Tree, "struct<below:array<string>>", Tree([Tree()]), {"below": ['{"below":[]}']}),
]


def column_of(annotation: Any) -> tuple[str, Callable[[Any], Any]]:
    """Return a field's column in Spark, and a function that writes a value to it and reads the value back."""
    cls = msgspec.defstruct("Happened", [("held", annotation)], frozen=True)
    (column,) = field_columns(cls)
    (arrow_type,) = arrow_schema(StructType([StructField("held", column.type)])).types

    def round_trip(value: Any) -> Any:
        return pyarrow.array(column_values(column, [value, value]), arrow_type).to_pylist()[1]

    return column.type.simpleString(), round_trip


@pytest.mark.parametrize(
    ("annotation", "column_type", "value", "expected"),
    MAPPED,
    ids=[column_type for _, column_type, *_ in MAPPED],
)
def test_fields_become_columns(annotation: Any, column_type: str, value: Any, expected: Any) -> None:
    if UNSET is value:
        cls = msgspec.defstruct("Happened", [("held", annotation, UNSET)], frozen=True)
        (column,) = field_columns(cls)
        assert (column.type.simpleString(), column_values(column, [value, 7])) == (column_type, [expected, 7])
        return
    actual, round_trip = column_of(annotation)
    assert (actual, round_trip(value)) == (column_type, expected)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(int, 2**63), (Decimal, Decimal("0.1234567890123456789")), (datetime, datetime(2026, 5, 1))],
    ids=["large", "exact", "naive"],
)
def test_values_outside_the_column_are_refused(annotation: Any, value: Any) -> None:
    with pytest.raises((ValueError, OverflowError)):
        column_of(annotation)[1](value)


@pytest.mark.parametrize(
    ("annotation", "column_type", "value", "in_row"), MAPPED, ids=[row[1] for row in MAPPED]
)
def test_column_values_become_fields_again(
    annotation: Any, column_type: str, value: Any, in_row: Any
) -> None:
    cls = msgspec.defstruct(
        "Happen", [("held", annotation, UNSET) if value is UNSET else ("held", annotation)]
    )
    ((_, node),) = tree_of(cls).fields
    convert = row_value_converter(node, (cls,))
    in_row = dict(in_row) if node.form == "dict" else in_row
    held = in_row if convert is None else convert(in_row)
    document = {"held": held} if held is not None or accepts_null(node) else {}
    decoded: Any = msgspec.json.decode(msgspec.json.encode(document), type=cls)
    assert decoded.held == value


def test_taken_names_get_a_prefix() -> None:
    class Happened(cqrs.Event):
        Offset: int
        amount: int

    columns = [(column.name, column.attribute) for column in field_columns(Happened, frozenset({"offset"}))]
    assert columns == [("data_Offset", "Offset"), ("amount", "amount")]
