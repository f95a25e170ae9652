"""The tail of a partition of events, without a broker."""

import pytest

from cqrs_cli.codec.record_codec import AS_STORED
from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition, PartitionTail
from cqrs_cli.observer import message_listener, observing
from tests.support.absent_broker import unused_address
from tests.support.waiting import eventually


def open_tail(address: str, *, wait_for_broker: bool = True) -> PartitionTail:
    partition = EventPartition("order", "order.events", 0)
    return PartitionTail(Connection(address), partition, 0, AS_STORED, wait_for_broker=wait_for_broker)


def test_reader_without_waiting_raises() -> None:
    tail = open_tail(unused_address(), wait_for_broker=False)
    with pytest.raises(UnavailableError, match="no answer from Kafka"):
        eventually(lambda: tail.poll(10)[0])
    tail.close()


def test_silent_brokers_are_noted_once() -> None:
    """librdkafka reports a missing broker outside of the messages, and keeps trying."""
    address, notes = unused_address(), list[str]()
    tail = open_tail(address)
    with observing(message_listener(notes.append)):
        eventually(lambda: tail.poll(10) == ([], 0) and notes)
        for _ in range(3):
            tail.poll(10)
    tail.close()
    assert notes == [f"no answer from {address}; still trying"]
