"""A follower separates records from errors and ends of partitions."""

from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.follower import Follower
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.readers import waiting_follower
from cqrs_cli.kafka.topics.topics import Topics


def came(offset: int, code: int | None = None) -> Message:
    """Return a record, or an error in place of a record."""
    error = None if code is None else KafkaError(code)
    return Message(topic="counter.events", partition=3, offset=offset, error=error)


class Reader:
    """A fake consumer that receives these messages."""

    def __init__(self, *arrived: Message) -> None:
        self._arrived = list(arrived)

    def assign(self, places: list[Any]) -> None: ...

    def list_topics(self, topic: str, timeout: float) -> None: ...

    def poll(self, timeout: float) -> Message | None:
        return self._arrived.pop(0) if self._arrived else None

    def consume(self, count: int, timeout: float) -> list[Message]:
        some, self._arrived = self._arrived[:count], self._arrived[count:]
        return some


def failed(topic: str, partition: int, error: KafkaError) -> Exception:
    return RuntimeError(f"{topic}:{partition} {error.code()}")


def follower(*arrived: Message, **how: Any) -> Follower:
    return Follower(cast(Consumer, Reader(*arrived)), failed, **how)


def offsets(messages: list[Any]) -> list[int]:
    return [message.offset() for message in messages]


def test_ends_stand_apart() -> None:
    following = follower(came(1), came(4, KafkaError._PARTITION_EOF), came(5))
    assert offsets(following.poll()) == [1, 5]
    assert following.ends == {("counter.events", 3): 4}
    assert following.poll() == []


def test_poll_takes_no_more() -> None:
    following = follower(*map(came, range(5)))
    assert [offsets(following.poll(2)), offsets(following.poll(1)), offsets(following.poll(9))] == [
        [0, 1],
        [2],
        [3, 4],
    ]


def test_silence_is_told_once() -> None:
    away, told = came(0, KafkaError._ALL_BROKERS_DOWN), list[str]()
    reader = cast(Consumer, Reader(away, away, came(1), away, away))
    following = waiting_follower(Connection("broker:1"), reader, told.append)
    assert offsets(following.poll(3)) == [1]
    assert told == ["no answer from broker:1; still trying"]
    assert following.poll() == []
    assert len(told) == 2


@pytest.mark.parametrize("code", [KafkaError._ALL_BROKERS_DOWN, KafkaError._AUTO_OFFSET_RESET])
def test_errors_end_the_reading(code: int) -> None:
    with pytest.raises(RuntimeError, match=r"counter\.events:3"):
        follower(came(1), came(0, code)).poll()


def test_foreign_group_is_not_needed() -> None:
    denied = came(0, KafkaError.GROUP_AUTHORIZATION_FAILED)
    assert follower(denied).poll() == []
    with pytest.raises(RuntimeError):
        follower(denied, own_group=True).poll()


def test_owner_learns_of_a_missing_acl() -> None:
    log = PartitionLog(Connection("broker:1"), Topics("counter"), 3)

    def poll(code: int) -> None:
        log.follow(cast(Consumer, Reader(came(0, code))), "commands", 0).poll()

    with pytest.raises(KafkaException):
        poll(KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(UnavailableError, match="no answer"):
        poll(KafkaError._TRANSPORT)
