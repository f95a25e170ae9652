"""Events as columns: one column for each type, with its fields."""

from datetime import UTC, datetime
from typing import Any

import pytest

import cqrs_cli as cqrs
from cqrs_cli import registry
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.jobs.export.columns import EventBatches, event_columns, event_lines
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from tests.support import ROOT
from tests.support.eventlog import NOON, counter_event

BANK = registry.load("bank_account", "aggregates", ROOT)
COUNTER = registry.load("counter", "aggregates", ROOT)


def event(type: str, version: int, **data: Any) -> bytes:
    return encode_json(
        {
            "id": f"0/{version}/0",
            "type": f"bank_account.{type}",
            "subject": "acc",
            "time": NOON,
            "causationid": "c",
            "correlationid": "order-9",
            "aggregateversion": version,
            "eventindex": 0,
            "eventcount": 1,
            "data": data,
        }
    )


def log_of(aggregate: Aggregate, partition: int) -> PartitionLog:
    return PartitionLog(Connection("nowhere:1"), Topics(aggregate.name), partition)


def rows(*values: bytes | None, aggregate: Aggregate = BANK) -> list[dict[str, Any]]:
    records = [Record(offset, 0, b"k", value) for offset, value in enumerate(values)]
    rows: list[dict[str, Any]] = EventBatches(aggregate, log_of(aggregate, 3)).batch(records).to_pylist()
    return rows


def test_each_type_has_its_column() -> None:
    opened_row, deposited_row = rows(event("Opened", 1, owner="Ada"), event("Deposited", 2, amount=5))
    assert (opened_row["Opened"], opened_row["Deposited"]) == ({"owner": "Ada"}, None)
    assert deposited_row == {
        "partition": 3,
        "offset": 1,
        "version": 2,
        "time": datetime(2026, 11, 21, 12, tzinfo=UTC),
        "id": "0/2/0",
        "type": "bank_account.Deposited",
        "subject": "acc",
        "causation": "c",
        "correlation": "order-9",
        "traceparent": None,
        "tracestate": None,
        "Opened": None,
        "Deposited": {"amount": 5},
        "Withdrawn": None,
    }


def test_envelope_names_are_reserved() -> None:
    class Go(cqrs.Command):
        pass

    class Time(cqrs.Event):
        at: int

    class Clock(cqrs.State):
        pass

    def decide(command: Go, state: Clock) -> list[Time]:
        return [Time(1)]

    def evolve(state: Clock, event: Time) -> Clock:
        return state

    clock = Aggregate.of("clock", cqrs.Decider(decide, evolve, initial=Clock()))
    assert [column.name for column in event_columns(clock)] == ["Time_event"]


@pytest.mark.parametrize("value", [None, b"{}", event("Gone", 1), event("Deposited", 1, amount="x")])
def test_unreadable_event_names_its_offset(value: bytes | None) -> None:
    with pytest.raises(ContradictionError, match=r"^bank_account\.events partition 3 offset 1: ") as raised:
        rows(event("Opened", 1, owner="Ada"), value)
    assert raised.value.hint == ("look at it: cqrs tail bank_account events --partition 3 --from 1 -n 1")


def test_lines_are_as_they_were_written() -> None:
    compact, multiline = counter_event("a", 1), counter_event("b", 1).replace(b"{", b"{\n ", 1)
    lines = event_lines(log_of(COUNTER, 0), [Record(0, 0, b"a", compact), Record(1, 0, b"b", multiline)])
    assert lines.column(0).to_pylist() == [compact.decode(), counter_event("b", 1).decode()]


def test_line_that_is_no_event_is_refused() -> None:
    with pytest.raises(ContradictionError, match=r"^counter\.events partition 0 offset 7: "):
        event_lines(log_of(COUNTER, 0), [Record(7, 0, b"a", b"[]")])
