"""A client that reads looks at once for the leaders of what it is assigned."""

from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli.kafka.leaders import assign


class Reader:
    """Stands for a consumer, and notes what it is told and asked."""

    def __init__(self, answers: bool = True) -> None:
        self.calls: list[object] = []
        self._answers = answers

    def assign(self, places: list[TopicPartition]) -> None:
        self.calls.append([(place.topic, place.partition) for place in places])

    def list_topics(self, topic: str, timeout: float) -> None:
        self.calls.append(topic)
        if not self._answers:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_leaders_are_looked_for_at_once() -> None:
    reader = Reader()
    assign(cast(Consumer, reader), [TopicPartition("events", 0), TopicPartition("events", 3)])
    assert reader.calls == [[("events", 0), ("events", 3)], "events"]


def test_assigned_without_a_broker() -> None:
    """It reads as soon as one is there."""
    reader = Reader(answers=False)
    assign(cast(Consumer, reader), [TopicPartition("events", 0)])
    assert reader.calls == [[("events", 0)], "events"]
