"""The table of all statuses and reasons of outcomes.

Deciding, `verify`, the counters, `status`, the metrics and the tables of docs/messages.md use it. A new reason needs
a row here and a check in core/checks.py (CONTRIBUTING.md).
"""

from enum import Enum
from typing import Any, NamedTuple


class StatusRow(NamedTuple):
    """A row of the statuses. If a decision is `remembered`, a later command with the same id is a duplicate."""

    remembered: bool
    meaning: str


STATUSES: dict[str, StatusRow] = {
    "accepted": StatusRow(True, "the command has one event or more"),
    "unchanged": StatusRow(True, "the command is valid and has no event, because there is nothing to do"),
    "rejected": StatusRow(True, "a rule or a check rejects the command: see `reason`"),
    "deferred": StatusRow(False, "the command is resubmitted at the time `due`, and then decided"),
    "duplicate": StatusRow(False, "the command was decided before: `original` has the first decision"),
    "failed": StatusRow(
        False, "the command cannot be decided, and is in the dead letters; its id may be sent again"
    ),
}

#: The statuses whose decisions are remembered. Failures are not remembered: the id may be sent again after the code was
#: corrected. Shards store the index of a status in this tuple, so the order must not change.
REMEMBERED = tuple(name for name, status in STATUSES.items() if status.remembered)


class Reason(Enum):
    """A row of the reasons: status, number of the check that gives it, and meaning.

    If two checks give a reason, the number is the lower number, except for `NOT_YET` (checks 5 and 9). The meaning is a
    cell of docs/messages.md, so "above" in it refers to that page. If a reason is `retryable`, a new command (with
    another id) may succeed.
    """

    VERSION_CONFLICT = (
        "rejected",
        10,
        "the aggregate has another version, `version`: read its state before you send a new command",
        True,
    )
    NOT_FOUND = (
        "rejected",
        10,
        "the command expected `exists`; or the command to cancel or release is not deferred",
    )
    ALREADY_EXISTS = "rejected", 10, "the command expected `none`"
    BUSINESS_RULE = "rejected", 11, "`decide` rejected the command: see `code` and `message`"
    EXPIRED = "rejected", 9, "the owner reached the command after its `expirytime`"
    CANCELLED = "rejected", 5, "a `cqrs.Cancel` cancelled the deferred command"
    ERASED = "rejected", 7, "an erasure deleted the key of the deferred command"
    GAVE_UP = "rejected", 11, "`decide` has deferred the command more than `max_attempts` times"
    NOT_YET = (
        "deferred",
        9,
        "the command's `notbefore` is in the future, or the command was resubmitted too early (check 5)",
    )
    LATER = "deferred", 11, "`decide` has deferred the command"
    MOVED = "deferred", 4, "a repartitioning moved the key to partition `movedto`, which decides the command"
    ID_REUSED = "rejected", 5, "another command had this subject and id", False, False
    KEY_MISSING = "failed", 1, "the record has no key, or an empty key"
    INVALID_ENVELOPE = "failed", 2, "the record is not a CloudEvent as described above"
    KEY_MISMATCH = "failed", 3, "the key is not the `subject`"
    NOT_RELEASED = "failed", 5, "the command has a `deferredfrom`, but no owner resubmitted it"
    WRONG_PARTITION = "failed", 4, "the sender uses another partitioner"
    UNKNOWN_TYPE = "failed", 6, "the aggregate has no such command"
    PAYLOAD_UNAVAILABLE = (
        "failed",
        7,
        "the payload is missing or altered, or the payload store did not answer",
        True,
    )
    INVALID_PAYLOAD = "failed", 7, "a field is missing, unknown or of another type"
    INVALID_EXPECTED_VERSION = "failed", 8, "`expectedversion` has none of the forms above"
    HANDLER_ERROR = (
        "failed",
        7,
        "the aggregate's code raised an exception or returned a value that is not an event; no event is written",
    )
    TOO_LARGE = (
        "failed",
        11,
        "an event is larger than the topic accepts; the command has more than 10,000 events, or events of more than "
        "8 MiB (64 MiB in a payload store); the command is too large to be deferred; its dead letter is larger than "
        "the topic accepts; or an operator gave the command up",
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
