"""Columns and views have different names, also without case, as Spark compares them."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.jobs.export.columns import event_columns
from cqrs_cli.jobs.replay.output import state_columns
from cqrs_cli.spark.field_types import field_columns
from cqrs_cli.spark.view_names import distinct_names, view_reads


class Stock(msgspec.Struct, frozen=True):
    sku: str = ""
    SKU: int = 0


class Line(cqrs.State):
    id: str = "mine"
    state_id: str = "BY"
    amount: int = 0
    Amount: int = 0
    stock: Stock = Stock()


class Enter(cqrs.Command):
    pass


class Entered(cqrs.Event):
    note: str = ""


class entered(cqrs.Event):  # a type whose name differs in case only
    n: int = 1


class Plain(cqrs.Event):
    offset: int = 7
    data_offset: int = 8


def decide(command: Enter, line: Line) -> list[Entered | entered | Plain]:
    return []


def evolve(line: Line, event: Entered | entered | Plain) -> Line:
    return line


LEDGER = Aggregate.of("ledger", cqrs.Decider(decide, evolve, Line()))


def test_fields_have_columns_of_their_own() -> None:
    columns: Any = state_columns(Line)
    assert [column.name for column in columns] == [
        "state_state_id",
        "state_id",
        "amount",
        "state_Amount",
        "stock",
    ]
    assert columns[-1].type.names == ["sku", "data_SKU"]
    assert columns[-1].convert(Stock("tea", 7)) == {"sku": "tea", "data_SKU": 7}
    assert [column.name for column in field_columns(Plain, frozenset({"offset"}))] == [
        "data_data_offset",
        "data_offset",
    ]


def test_event_types_have_views_of_their_own() -> None:
    types = {name: read["type"] for name, read in view_reads([LEDGER]).items() if "type" in read}
    assert types == {
        "ledger_Entered": "Entered",
        "ledger_entered_event": "entered",
        "ledger_Plain": "Plain",
    }
    assert [column.name for column in event_columns(LEDGER)] == ["Entered", "entered_event", "Plain"]


names = st.lists(st.text("aAbB_", min_size=1, max_size=3), max_size=6)


@given(names, st.frozensets(st.text("ab_", min_size=1, max_size=3)))
def test_names_differ_without_case(requested_names: list[str], taken_names: frozenset[str]) -> None:
    lower_names = [name.lower() for name in distinct_names(requested_names, taken_names, "a_{}")]
    assert len({*lower_names, *taken_names}) == len(requested_names) + len(taken_names)
