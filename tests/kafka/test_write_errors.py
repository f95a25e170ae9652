"""The errors that halve a batch, and the errors inside librdkafka's callbacks."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from cqrs_cli.kafka.write_errors import is_caused_by_batch, unwrapping_fatal_errors


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError._MSG_TIMED_OUT,  # producing has used up the transaction's time
        KafkaError._QUEUE_FULL,
    ],
)
def test_rejected_record_is_caused_by_batch(code: int) -> None:
    assert is_caused_by_batch(KafkaError(code))


@pytest.mark.parametrize(
    "code",
    [
        KafkaError._FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.INVALID_TXN_STATE,
        KafkaError._STATE,
        KafkaError.UNKNOWN,
    ],
)
def test_other_errors_are_not_caused_by_batch(code: int) -> None:
    assert not is_caused_by_batch(KafkaError(code))


def test_fencing_inside_report_is_raised() -> None:
    fenced = KafkaException(KafkaError(KafkaError._FENCED))
    with pytest.raises(KafkaException) as error, unwrapping_fatal_errors():
        raise SystemError("returned a result with an exception set") from fenced
    assert error.value is fenced
    with pytest.raises(SystemError), unwrapping_fatal_errors():
        raise SystemError("another")
