"""Endings of an owner: those that are not errors of the broker, and all after which another owner may begin."""

from confluent_kafka import KafkaException

from cqrs_cli.core.aggregate.invalid import PROCESS_ERRORS
from cqrs_cli.errors import ContradictionError, UnavailableError
from cqrs_cli.kafka.readers import MissingError
from cqrs_cli.kafka.write_errors import ReadShortError
from cqrs_cli.ownership.claim import Claim, Judgement


class Superseded(Exception):
    """The committed claim says to end: `judgement` is TAKEN_OVER or STRAGGLER."""

    def __init__(self, judgement: Judgement, committed_claim: Claim | None) -> None:
        super().__init__(judgement.value)
        self.judgement = judgement
        self.committed_claim = committed_claim


class ClaimLost(Exception):
    """The committed claim is not this owner's any more, but not a later one's either: begin again."""


class BatchTooLarge(Exception):
    """A batch that its own records keep from being committed: its first offset and the number of its records.

    `late`: it may also be the broker's fault, so a single record is not to blame. `undecidable`: all of them were
    `failed`, so that their dead letters are to blame.
    """

    def __init__(self, offset: int, size: int, reason: str, late: bool, undecidable: bool) -> None:
        super().__init__(reason)
        self.offset = offset
        self.size = size
        self.late = late
        self.undecidable = undecidable


class OffsetPending(Exception):
    """The group's offset stays pending behind a fence, which should have settled it."""


#: Errors of every owner after which its supervisor decides whether to begin again.
JUDGED = (
    *PROCESS_ERRORS,
    BatchTooLarge,
    ContradictionError,
    KafkaException,
    UnavailableError,
    MissingError,
    ClaimLost,
    OffsetPending,
    ReadShortError,
)
