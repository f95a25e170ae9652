"""A follower separates records from errors and ends of partitions."""

from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.follower import Follower
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.readers import messages_with, waiting_follower
from cqrs_cli.kafka.topics.topics import Topics


def message_at(offset: int, code: int | None = None) -> Message:
    """Return a record, or an error in place of a record."""
    error = None if code is None else KafkaError(code)
    return Message(topic="counter.events", partition=3, offset=offset, error=error)


class FakeConsumer:
    """A fake consumer that receives these messages."""

    def __init__(self, *messages: Message) -> None:
        self._messages = list(messages)

    def assign(self, partitions: list[Any]) -> None: ...

    def unassign(self) -> None: ...

    def list_topics(self, topic: str, timeout: float) -> None: ...

    def poll(self, timeout: float) -> Message | None:
        return self._messages.pop(0) if self._messages else None

    def consume(self, count: int, timeout: float) -> list[Message]:
        batch, self._messages = self._messages[:count], self._messages[count:]
        return batch


def read_error(topic: str, partition: int, error: KafkaError) -> Exception:
    return RuntimeError(f"{topic}:{partition} {error.code()}")


def follower(*messages: Message, **options: Any) -> Follower:
    return Follower(cast(Consumer, FakeConsumer(*messages)), read_error, **options)


def offsets(messages: list[Any]) -> list[int]:
    return [message.offset() for message in messages]


def test_partition_ends_are_not_records() -> None:
    reader = follower(message_at(1), message_at(4, KafkaError._PARTITION_EOF), message_at(5))
    assert offsets(reader.poll()) == [1, 5]
    assert reader.ends == {("counter.events", 3): 4}
    assert reader.poll() == []


def test_poll_respects_its_limit() -> None:
    reader = follower(*map(message_at, range(5)))
    assert [offsets(reader.poll(2)), offsets(reader.poll(1)), offsets(reader.poll(9))] == [
        [0, 1],
        [2],
        [3, 4],
    ]


def test_silence_is_noted_once() -> None:
    down_error, notes = message_at(0, KafkaError._ALL_BROKERS_DOWN), list[str]()
    consumer = cast(Consumer, FakeConsumer(down_error, down_error, message_at(1), down_error, down_error))
    reader = waiting_follower(Connection("broker:1"), consumer, notes.append)
    assert offsets(reader.poll(3)) == [1]
    assert notes == ["no answer from broker:1; still trying"]
    assert reader.poll() == []
    assert len(notes) == 2


@pytest.mark.parametrize("code", [KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTO_OFFSET_RESET])
def test_errors_end_the_read(code: int) -> None:
    with pytest.raises(RuntimeError, match=r"counter\.events:3"):
        follower(message_at(1), message_at(0, code)).poll()


def test_bounded_read_survives_a_lost_connection() -> None:
    down_error = message_at(0, KafkaError._ALL_BROKERS_DOWN)
    consumer = cast(Consumer, FakeConsumer(message_at(0), down_error, message_at(1)))
    batches = messages_with(Connection("broker:1"), consumer, "counter.events", 3, 0, 2, batch=1)
    assert [offsets(batch) for batch in batches] == [[0], [1]]


def test_bounded_read_names_absent_broker() -> None:
    consumer = cast(Consumer, FakeConsumer(message_at(0, KafkaError._ALL_BROKERS_DOWN)))
    batches = messages_with(Connection("broker:1"), consumer, "counter.events", 3, 0, 2, timeout=0.0)
    with pytest.raises(UnavailableError, match="no answer from Kafka"):
        list(batches)


def test_group_right_is_not_needed() -> None:
    denied_error = message_at(0, KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert follower(denied_error).poll() == []
    with pytest.raises(RuntimeError):
        follower(denied_error, own_group=True).poll()


def test_missing_acl_is_raised() -> None:
    log = PartitionLog(Connection("broker:1"), Topics("counter"), 3)

    def poll(code: int) -> None:
        log.follow(cast(Consumer, FakeConsumer(message_at(0, code))), "commands", 0).poll()

    with pytest.raises(KafkaException):
        poll(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(UnavailableError, match="no answer"):
        poll(KafkaError._TRANSPORT)
