"""Requests for offsets are repeated while a partition has no leader."""

from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli.kafka.readers import offset_with, watermarks


class FakeConsumer:
    """A fake consumer whose broker first answers with these errors."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return partition.partition, 7

    def offsets_for_times(self, partitions: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        return [
            TopicPartition(partition.topic, *self.get_watermark_offsets(partition, timeout))
            for partition in partitions
        ]

    def close(self) -> None:
        pass


passing_errors = pytest.mark.parametrize(
    "error",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._DESTROY_BROKER,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
    ],
)


@passing_errors
def test_partition_without_leader_is_awaited(error: int) -> None:
    assert watermarks(cast(Consumer, FakeConsumer(error, error)), "t", 3) == (3, 7)


@passing_errors
def test_offset_at_time_awaits_leader(error: int) -> None:
    assert offset_with(cast(Consumer, FakeConsumer(error, error)), "t", 3, 1000) == 7


@pytest.mark.parametrize("error", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._TRANSPORT])
def test_other_errors_are_raised(error: int) -> None:
    """The second error counts, because the first may only mean that the client is not connected yet."""
    reader = FakeConsumer(error, error)
    with pytest.raises(KafkaException):
        watermarks(cast(Consumer, reader), "t", 3)
    assert not reader.errors
