"""The table of all statuses and reasons of outcomes.

Deciding, `verify`, the counters, `status`, the metrics and the tables of docs/messages.md use it. A new reason needs
one row here and one check in core/decide.py.
"""

from enum import Enum
from typing import Any, NamedTuple


class StatusRow(NamedTuple):
    """A row of the statuses. If decisions are `remembered`, the same id is a duplicate later."""

    remembered: bool
    meaning: str


STATUSES: dict[str, StatusRow] = {
    "accepted": StatusRow(True, "one event or more"),
    "unchanged": StatusRow(True, "valid, and nothing to do: no event"),
    "rejected": StatusRow(True, "no"),
    "deferred": StatusRow(False, "not yet: it is resubmitted when it is `due`, and decided then"),
    "duplicate": StatusRow(False, "decided before: the first decision is in `original`"),
    "failed": StatusRow(False, "could not be decided; kept in the dead letters; its id may be tried again"),
}

#: The statuses whose decisions are remembered. Failures are not, so that the id may be sent again after a correction of
#: the code. Shards store the index of a status in this tuple, so the order must not change.
REMEMBERED = tuple(name for name, status in STATUSES.items() if status.remembered)


class Reason(Enum):
    """A row of the reasons: status, number of the check that gives it (the lower of two), and meaning.

    If it is `retryable`, a new command (with another id) may succeed.
    """

    VERSION_CONFLICT = "rejected", 10, "the aggregate is at `version`: look at it, and decide again", True
    NOT_FOUND = "rejected", 10, "`exists` was expected; or no such command is deferred"
    ALREADY_EXISTS = "rejected", 10, "`none` was expected"
    BUSINESS_RULE = "rejected", 11, "`decide` says no: see `code` and `message`"
    EXPIRED = "rejected", 9, "its turn came after its `expirytime`"
    CANCELLED = "rejected", 5, "a `cqrs.Cancel` ended it while it was deferred"
    ERASED = "rejected", 7, "its personal data were erased while it was deferred"
    GAVE_UP = "rejected", 11, "`decide` has put it off more often than `max_attempts` allows"
    NOT_YET = "deferred", 9, "its `notbefore` is to come; or it was resubmitted too early (check 5)"
    LATER = "deferred", 11, "`decide` has put it off"
    MOVED = "deferred", 4, "its key has moved to partition `movedto` as the topics grew: it is decided there"
    ID_REUSED = "rejected", 5, "another command had this subject and id", False, False
    KEY_MISSING = "failed", 1, "no key, or an empty one"
    INVALID_ENVELOPE = "failed", 2, "not a CloudEvent as above"
    KEY_MISMATCH = "failed", 3, "the key is not the `subject`"
    NOT_RELEASED = "failed", 5, "it has a `deferredfrom` that no owner gave it"
    WRONG_PARTITION = "failed", 4, "the sender's partitioner is another"
    UNKNOWN_TYPE = "failed", 6, "the aggregate has no such command"
    PAYLOAD_UNAVAILABLE = (
        "failed",
        7,
        "the payload that it refers to is missing or altered, or the store did not answer",
        True,
    )
    INVALID_PAYLOAD = "failed", 7, "a field is missing, unknown or of another type"
    INVALID_EXPECTED_VERSION = "failed", 8, "not one of the forms above"
    HANDLER_ERROR = (
        "failed",
        7,
        "the aggregate's code raised, or made something that is not an event; none of its events is written",
    )
    TOO_LARGE = (
        "failed",
        11,
        "an event larger than the topic takes, more than 10,000 or 8 MiB of them (64 MiB in a payload store), "
        "a command too large to be deferred,"
        " a dead letter larger than its topic takes, or given up by an operator",
    )

    def __init__(
        self, status: str, check: int, meaning: str, retryable: bool = False, remembered: bool | None = None
    ) -> None:
        self.status = status
        self.check = check
        self.meaning = meaning
        self.retryable = retryable
        self.remembered = STATUSES[status].remembered if remembered is None else remembered


def is_remembered(status: str, reason: str | None) -> bool:
    """True if a decision is remembered. For an unknown reason the status decides."""
    row = None if reason is None else Reason.__members__.get(reason)
    return status in REMEMBERED and (row is None or row.remembered)


class CheckFailed(Exception):
    """A check failed: the command is rejected, deferred or failed, with `reason`.

    `outcome_fields` are additional fields of the outcome, such as `code`, `original`, `decidedat` or `due`.
    """

    def __init__(self, reason: Reason, message: str, **outcome_fields: Any) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.outcome_fields = outcome_fields
