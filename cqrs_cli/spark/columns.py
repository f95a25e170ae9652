"""The columns of each topic, in words of Spark."""

from typing import TYPE_CHECKING

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.attributes import TEXT_COLUMNS
from cqrs_cli.core.messages.outcome import Verdict
from cqrs_cli.errors import UsageError
from cqrs_cli.spark.field_types import FieldColumn, field_columns
from cqrs_cli.spark.options import SourceKind

if TYPE_CHECKING:
    from msgspec import Struct
    from pyspark.sql.types import StructType

#: The number of attributes before a column of the topic's own: id, type and subject.
BEFORE_OWN = 3


def _envelope(**own: str) -> dict[str, str]:
    place = {"partition": "int", "offset": "bigint", "timestamp": "timestamp"}
    texts = dict.fromkeys(TEXT_COLUMNS, "string")
    return {**place, **dict.fromkeys(list(texts)[:BEFORE_OWN], "string"), **own, **texts}


#: The record's place and the envelope, by topic: name and type.
ENVELOPE: dict[SourceKind, dict[str, str]] = {
    "events": _envelope(version="bigint"),
    "commands": _envelope(expected="string"),
    "outcomes": _envelope(),
}

#: The column in place of fields: the message's own part, as JSON.
DATA = "data"


def wire_type(aggregate: Aggregate, kind: SourceKind, name: str) -> str:
    """The wire type of a message that the aggregate has today; raises `UsageError` naming those that there are."""
    known = aggregate.commands if kind == "commands" else aggregate.events
    full = name if name in known else f"{aggregate.name}.{name}"
    if full not in known:
        names = ", ".join(one.removeprefix(f"{aggregate.name}.") for one in known)
        raise UsageError(f"{aggregate.name} has no {kind.removesuffix('s')} {name[:60]!r}", f"known: {names}")
    return full


def message_class(
    aggregate: Aggregate | None, kind: SourceKind, type_name: str | None
) -> "type[Struct] | None":
    """The class whose fields are columns; None where `data` is one."""
    if kind == "outcomes":
        return Verdict
    if aggregate is None or type_name is None:
        return None
    full = wire_type(aggregate, kind, type_name)
    return aggregate.commands[full] if kind == "commands" else aggregate.events[full]


def fields_as_columns(kind: SourceKind, cls: "type[Struct]") -> list[FieldColumn]:
    """The columns that follow the envelope's."""
    return field_columns(cls, frozenset(ENVELOPE[kind]))


def source_schema(kind: SourceKind, cls: "type[Struct] | None") -> "StructType":
    """The schema of a topic, with the fields of a class or with `data`."""
    from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

    simple = {
        "int": IntegerType(),
        "bigint": LongType(),
        "timestamp": TimestampType(),
        "string": StringType(),
    }
    fields = [StructField(name, simple[text]) for name, text in ENVELOPE[kind].items()]
    if cls is None:
        return StructType([*fields, StructField(DATA, StringType())])
    return StructType([*fields, *(StructField(one.name, one.type) for one in fields_as_columns(kind, cls))])
