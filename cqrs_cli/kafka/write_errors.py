"""Errors of a write. Errors that the batch itself caused are distinguished from all other errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from cqrs_cli.kafka.error_kinds import ErrorKind, error_kind

#: Errors that the batch itself caused: writing the same batch again would have the same result.
_CAUSED_BY_BATCH = {
    ErrorKind.TOO_LARGE,
    ErrorKind.TIMESTAMP_REJECTED,
    ErrorKind.DELIVERY_TIMEOUT,
    ErrorKind.REJECTED,
}


def is_caused_by_batch(error: KafkaError) -> bool:
    """True if the batch itself caused the failure, so that a smaller batch may succeed.

    The batch is not at fault if the writer is fenced, a broker does not answer, or the result is unknown.
    """
    return error_kind(error) in _CAUSED_BY_BATCH


class BatchRefusedError(Exception):
    """The batch itself caused the failure: nothing of it is committed, and a smaller batch may succeed."""


class BatchLateError(BatchRefusedError):
    """The batch was not written within the timeout: a smaller batch may succeed, unless the broker is gone."""


class BatchTimeError(BatchRefusedError):
    """A topic rejects the timestamp of a record, which is the timestamp of its command. So no outcome of the command
    can be written.
    """


class TopicRecreatedError(Exception):
    """The topic was recreated after it was read: nothing of the batch is committed."""


class UnreadRecordsError(Exception):
    """The log has records that the writer has not read: nothing of the batch is committed."""

    def __init__(self, topic: str, expected_offset: int, actual_offset: int) -> None:
        super().__init__(
            f"{topic} ends at {actual_offset}, not at {expected_offset}: some of its records were not read"
        )


def batch_error(error: KafkaError) -> BatchRefusedError | None:
    """Return the error to raise if the batch itself caused this error; None otherwise."""
    match error_kind(error):
        case ErrorKind.DELIVERY_TIMEOUT:
            return BatchLateError(error.str())
        case ErrorKind.TIMESTAMP_REJECTED:
            return BatchTimeError(error.str())
    return BatchRefusedError(error.str()) if is_caused_by_batch(error) else None


@contextmanager
def raising_batch_errors() -> Iterator[None]:
    """Raise a failure that the batch itself caused as `BatchRefusedError`."""
    try:
        yield
    except KafkaException as error:
        if (refused_batch_error := batch_error(error.args[0])) is not None:
            raise refused_batch_error from error
        raise


@contextmanager
def unwrapping_fatal_errors() -> Iterator[None]:
    """Raise the `KafkaException` of a fatal error that arrives during a delivery report.

    confluent-kafka raises a `SystemError` instead, with the `KafkaException` as its cause.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise
