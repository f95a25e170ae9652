"""Failures of a write: which of them the batch itself caused, as errors of ours."""

from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import KafkaError, KafkaException

from cqrs_cli.kafka.error_kinds import ErrorKind, error_kind

#: The record itself is at fault: trying the same batch again would end the same way.
_REFUSED = {ErrorKind.TOO_LARGE, ErrorKind.UNTIMELY, ErrorKind.LATE, ErrorKind.REFUSED}


def blames_the_batch(error: KafkaError) -> bool:
    """True if the batch itself caused the failure, so that a smaller one may pass.

    Fencing, a broker that does not answer and unknown results do not blame the batch.
    """
    return error_kind(error) in _REFUSED


class BatchRefusedError(Exception):
    """The batch itself caused the failure: nothing of it is committed, a smaller one may pass."""


class BatchLateError(BatchRefusedError):
    """The batch was not written in the transaction's time: a smaller one may pass, unless the broker is gone."""


class BatchTimeError(BatchRefusedError):
    """A topic does not take the time of a record, which is the command's: no outcome of it can be written."""


class TopicMadeAgainError(Exception):
    """The log of this topic that was written to is not the one that was read: nothing of the batch is committed."""


class ReadShortError(Exception):
    """The log that was written to holds more than was read of it: nothing of the batch is committed."""

    def __init__(self, topic: str, wanted: int, found: int) -> None:
        super().__init__(f"{topic} ends at {found}, not at {wanted}: not all of it was read")


def refused_batch(error: KafkaError) -> BatchRefusedError | None:
    """The error to raise if the batch itself caused this one; None if it did not."""
    match error_kind(error):
        case ErrorKind.LATE:
            return BatchLateError(error.str())
        case ErrorKind.UNTIMELY:
            return BatchTimeError(error.str())
    return BatchRefusedError(error.str()) if blames_the_batch(error) else None


@contextmanager
def refusing() -> Iterator[None]:
    """Raise a failure that the batch itself caused as a `BatchRefusedError`."""
    try:
        yield
    except KafkaException as error:
        if (refused := refused_batch(error.args[0])) is not None:
            raise refused from error
        raise


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise a fatal error as itself also when it arrives during a delivery report.

    The client raises a `SystemError` then, since Python calls back with an exception set.
    """
    try:
        yield
    except SystemError as error:
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from None
        raise
