"""States as columns, by the types of their fields."""

import enum
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Literal

import msgspec
import pytest

import cqrs_cli as cqrs
from cqrs_cli.errors import CqrsError
from cqrs_cli.jobs.replay.output import StateColumns
from cqrs_cli.scans.replay.fold import AggregateRow

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Colour(enum.Enum):
    RED = "red"


class Line(msgspec.Struct, frozen=True):
    sku: str
    count: int = 1


class AllFieldTypes(cqrs.State):
    id: int = 7
    name: str | None = None
    ratio: float = 0.5
    price: Decimal = Decimal("9.90")
    open: bool = True
    day: date = date(2026, 11, 21)
    at: datetime = NOON
    colour: Colour = Colour.RED
    size: Literal["s", "m"] = "s"
    lines: tuple[Line, ...] = (Line("tea"), Line("oil", 2))
    tags: frozenset[str] = frozenset({"b", "a"})
    by: dict[str, int] = cqrs.field(default_factory=lambda: {"x": 1})
    anything: int | str = "1"


def row(state: Any) -> AggregateRow:
    return AggregateRow("a", 1, "2026-11-21T12:00:00.000Z", b"", state)


def test_fields_have_their_types() -> None:
    batch = StateColumns(AllFieldTypes).batch([row(AllFieldTypes()), row(AllFieldTypes(name="Ada"))])
    first, second = batch.to_pylist()
    assert first == {
        "id": "a",
        "version": 1,
        "time": NOON,
        "state_id": 7,
        "name": None,
        "ratio": 0.5,
        "price": Decimal("9.900000000000000000"),
        "open": True,
        "day": date(2026, 11, 21),
        "at": NOON,
        "colour": "red",
        "size": "s",
        "lines": [{"sku": "tea", "count": 1}, {"sku": "oil", "count": 2}],
        "tags": ["a", "b"],
        "by": [("x", 1)],
        "anything": '"1"',
    }
    assert second["name"] == "Ada"
    assert str(batch.schema.field("time").type) == "timestamp[us, tz=UTC]"


@pytest.mark.parametrize("state", [AllFieldTypes(id=2**63), AllFieldTypes(at=datetime(2026, 1, 1))])
def test_values_that_fit_no_column_are_named(state: AllFieldTypes) -> None:
    with pytest.raises(CqrsError, match=r"the state of 'a': (id|at) does not fit into the column") as raised:
        StateColumns(AllFieldTypes).batch([row(AllFieldTypes()), row(state)])
    assert raised.value.hint.startswith("JSON accepts every value")


def test_a_state_without_fields_is_written() -> None:
    class Bare(cqrs.State):
        pass

    assert list(StateColumns(Bare).batch([row(Bare())]).schema.names) == ["id", "version", "time"]
