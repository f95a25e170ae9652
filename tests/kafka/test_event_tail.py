"""The tail of a partition of events, without a broker."""

import pytest

from cqrs_cli.codec.record_codec import AS_STORED
from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition, PartitionTail
from tests.support.absent_broker import unused_address
from tests.support.waiting import eventually


def tail(address: str, notes: list[str], *, patient: bool = True) -> PartitionTail:
    place = EventPartition("order", "order.events", 0)
    return PartitionTail(Connection(address), place, 0, notes.append, AS_STORED, wait_for_broker=patient)


def test_impatient_reader_ends() -> None:
    reading = tail(unused_address(), [], patient=False)
    with pytest.raises(UnavailableError, match="no answer from Kafka"):
        eventually(lambda: reading.poll(10)[0])
    reading.close()


def test_silent_brokers_are_noted_once() -> None:
    """librdkafka reports a missing broker outside of the messages, and keeps trying."""
    address, notes = unused_address(), list[str]()
    reading = tail(address, notes)
    eventually(lambda: reading.poll(10) == ([], 0) and notes)
    for _ in range(3):
        reading.poll(10)
    reading.close()
    assert notes == [f"no answer from {address}; still trying"]
