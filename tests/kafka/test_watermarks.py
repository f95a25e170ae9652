from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli.kafka.readers import watermarks


class Reader:
    """Stands for a consumer of a broker that answers with these errors first."""

    def __init__(self, *errors: int) -> None:
        self.errors = list(errors)

    def get_watermark_offsets(self, place: TopicPartition, timeout: float) -> tuple[int, int]:
        if self.errors:
            raise KafkaException(KafkaError(self.errors.pop(0)))
        return place.partition, 7


@pytest.mark.parametrize(
    "error",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_PARTITION,
    ],
)
def test_a_partition_that_gets_its_leader_or_is_made_just_now_is_waited_for(error: int) -> None:
    assert watermarks(cast(Consumer, Reader(error, error)), "t", 3) == (3, 7)


@pytest.mark.parametrize("error", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._TRANSPORT])
def test_any_other_error_is_raised_at_once(error: int) -> None:
    reader = Reader(error)
    with pytest.raises(KafkaException):
        watermarks(cast(Consumer, reader), "t", 3)
    assert not reader.errors
