"""The exceptions that end an owner: its own exceptions, and all errors after which another owner may start."""

from confluent_kafka import KafkaException

from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS
from cqrs_cli.errors import ContradictionError, UnavailableError
from cqrs_cli.kafka.readers import MissingPartitionError
from cqrs_cli.kafka.write_errors import UnreadRecordsError
from cqrs_cli.ownership.claim import Claim, Judgement


class LaterClaim(Exception):
    """A later claim is committed, and the owner must return: `judgement` is `LATER_RUN` or `LATER_ATTEMPT`."""

    def __init__(self, judgement: Judgement, committed_claim: Claim | None) -> None:
        super().__init__(judgement.value)
        self.judgement = judgement
        self.committed_claim = committed_claim


class ClaimLost(Exception):
    """The committed claim is neither the own claim nor a later claim, or it is gone: another owner must start."""


class UnwritableBatch(Exception):
    """A batch cannot be committed because of its own records: they are too large or too many, or their timestamps are
    not accepted. `offset`: the first offset of the batch; `size`: the number of its records.

    `late`: the commit took too long, so the cause may be the broker instead of the records. `undecidable`: all outcomes
    were `failed`, so the dead letters are too large.
    """

    def __init__(self, offset: int, size: int, reason: str, late: bool, undecidable: bool) -> None:
        super().__init__(reason)
        self.offset = offset
        self.size = size
        self.late = late
        self.undecidable = undecidable


class OffsetPending(Exception):
    """The commit of the group's offset is still pending after a fence, which should have ended it."""


#: Errors of any owner after which its supervisor decides whether another owner starts.
HANDLED_ERRORS = (
    *PROCESS_ERRORS,
    UnwritableBatch,
    ContradictionError,
    KafkaException,
    UnavailableError,
    MissingPartitionError,
    ClaimLost,
    OffsetPending,
    UnreadRecordsError,
)
