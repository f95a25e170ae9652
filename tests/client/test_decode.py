from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

import cqrs_cli as cqrs
from aggregates.counter import Incremented
from cqrs_cli.errors import ContradictionError, UsageError
from tests.support import ROOT
from tests.support.eventlog import counter_event


class Message:
    """A message as confluent-kafka returns it."""

    def __init__(self, value: bytes | None, error: object = None) -> None:
        self._value, self._error = value, error

    def error(self) -> object:
        return self._error

    def value(self) -> bytes | None:
        return self._value

    def topic(self) -> str:
        return "counter.events"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 41


def decode_record(record: Any) -> cqrs.Recorded[cqrs.Event]:
    return cqrs.decode(record, project=ROOT)


def test_messages_become_recorded_events() -> None:
    recorded_event = decode_record(Message(counter_event("a", 7, 3)))
    assert recorded_event.event == Incremented(3)
    assert (
        recorded_event.aggregate_id,
        recorded_event.version,
        recorded_event.id,
        recorded_event.causation_id,
    ) == (
        "a",
        7,
        "0/7/0",
        "c",
    )
    assert (recorded_event.topic, recorded_event.partition, recorded_event.offset) == (
        "counter.events",
        3,
        41,
    )
    assert recorded_event.time == datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_records_of_kafka_python_are_read() -> None:
    record = SimpleNamespace(value=counter_event("a", 7, 3), topic="counter.events", partition=3, offset=41)
    assert decode_record(record) == decode_record(Message(counter_event("a", 7, 3)))


@pytest.mark.parametrize("value", [None, b"?", b'{"type":"x"}', counter_event("a", 1, type="Doubled")])
def test_errors_name_the_record(value: bytes | None) -> None:
    with pytest.raises(ContradictionError, match=r"^counter\.events:3@41: "):
        decode_record(Message(value))


def test_errors_of_consumers_are_refused() -> None:
    with pytest.raises(UsageError, match="an error of the consumer: broker down"):
        decode_record(Message(None, error="broker down"))


def test_unknown_aggregates_have_a_suggestion() -> None:
    value = counter_event("a", 1).replace(b'"counter.', b'"countr.')
    with pytest.raises(UsageError, match="no aggregate 'countr'; did you mean counter"):
        decode_record(Message(value))
