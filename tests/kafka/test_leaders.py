"""A reading client looks up the leaders of its partitions at once."""

from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli.kafka.leaders import ask_leader, assign


class FakeConsumer:
    """A fake consumer that records its calls."""

    def __init__(self, has_broker: bool = True) -> None:
        self.calls: list[object] = []
        self._has_broker = has_broker

    def assign(self, partitions: list[TopicPartition]) -> None:
        self.calls.append([(partition.topic, partition.partition) for partition in partitions])

    def list_topics(self, topic: str, timeout: float) -> None:
        self.calls.append(topic)
        if not self._has_broker:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_leaders_are_looked_up_at_once() -> None:
    reader = FakeConsumer()
    assign(cast(Consumer, reader), [TopicPartition("events", 0), TopicPartition("events", 3)])
    assert reader.calls == [[("events", 0), ("events", 3)], "events"]


def test_assignment_works_without_a_broker() -> None:
    """The client reads as soon as a broker is available."""
    reader = FakeConsumer(has_broker=False)
    assign(cast(Consumer, reader), [TopicPartition("events", 0)])
    assert reader.calls == [[("events", 0)], "events"]


class FakeRequest:
    """A request that times out at first, and records its timeouts."""

    def __init__(self, unanswered: int, *codes: int) -> None:
        self.timeouts: list[float] = []
        self._unanswered = unanswered
        self._codes = [*codes, *[KafkaError._TIMED_OUT] * unanswered]

    def __call__(self, timeout: float) -> int:
        self.timeouts.append(timeout)
        if len(self.timeouts) <= self._unanswered:
            raise KafkaException(KafkaError(self._codes[len(self.timeouts) - 1]))
        return 42


@pytest.mark.parametrize(
    ("unanswered", "timeouts", "lookups"),
    [(0, [0.1], []), (1, [0.1, 1.0], []), (2, [0.1, 1.0, 1.0], ["events"])],
)
def test_request_is_repeated_soon(unanswered: int, timeouts: list[float], lookups: list[object]) -> None:
    """The client looks up another leader only after the request's full timeout."""
    reader, request = FakeConsumer(), FakeRequest(unanswered)
    assert ask_leader(cast(Consumer, reader), "events", request, 10.0) == 42
    assert request.timeouts == timeouts
    assert reader.calls == lookups


def test_short_request_is_made_twice() -> None:
    reader, request = FakeConsumer(), FakeRequest(9)
    with pytest.raises(KafkaException):
        ask_leader(cast(Consumer, reader), "events", request, 0.05)
    assert request.timeouts == [0.05, 0.05]


@pytest.mark.parametrize("unanswered", [1, 3])
def test_unconnected_client_waits_for_its_broker(unanswered: int) -> None:
    """A client that is not connected yet reports that all brokers are down."""
    request = FakeRequest(unanswered, *[KafkaError._ALL_BROKERS_DOWN] * unanswered)
    assert ask_leader(cast(Consumer, FakeConsumer()), "events", request, 10.0) == 42


def test_only_the_first_error_is_ignored() -> None:
    request = FakeRequest(2, KafkaError._AUTHENTICATION, KafkaError._AUTHENTICATION)
    with pytest.raises(KafkaException):
        ask_leader(cast(Consumer, FakeConsumer()), "events", request, 10.0)
    assert request.timeouts == [0.1, 1.0]
