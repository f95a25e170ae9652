"""Exceptions that end an owner but are not errors of the broker, and all errors after which another may start."""

from confluent_kafka import KafkaException

from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS
from cqrs_cli.errors import ContradictionError, UnavailableError
from cqrs_cli.kafka.readers import MissingError
from cqrs_cli.kafka.write_errors import UnreadRecordsError
from cqrs_cli.ownership.claim import Claim, Judgement


class LaterClaim(Exception):
    """A later claim is committed, and the owner must return: `judgement` is `LATER_RUN` or `LATER_ATTEMPT`."""

    def __init__(self, judgement: Judgement, committed_claim: Claim | None) -> None:
        super().__init__(judgement.value)
        self.judgement = judgement
        self.committed_claim = committed_claim


class ClaimLost(Exception):
    """The committed claim is neither this owner's claim nor a later claim: another owner must start."""


class BatchTooLarge(Exception):
    """A batch whose own records prevent its commit. `offset`: its first offset; `size`: the number of its records.

    `late`: the commit took too long, so the broker may be the cause, not the records. `undecidable`: all outcomes were
    `failed`, so the dead letters are too large.
    """

    def __init__(self, offset: int, size: int, reason: str, late: bool, undecidable: bool) -> None:
        super().__init__(reason)
        self.offset = offset
        self.size = size
        self.late = late
        self.undecidable = undecidable


class OffsetPending(Exception):
    """The group's offset is still pending after a fence, which should have ended the pending commit."""


#: Errors of any owner after which its supervisor decides whether another owner starts.
HANDLED_ERRORS = (
    *PROCESS_ERRORS,
    BatchTooLarge,
    ContradictionError,
    KafkaException,
    UnavailableError,
    MissingError,
    ClaimLost,
    OffsetPending,
    UnreadRecordsError,
)
