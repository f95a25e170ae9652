"""The values that a partition's store keeps, as the pure core reads them."""

from typing import Protocol

from msgspec import Struct

from cqrs_cli.core.deferral.entry import DeferredView
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.messages.reasons import is_remembered

#: The value of `StateView.greatest_id` if no useful bound is known: a text that is greater than every command id.
NO_BOUND = "\U0010ffff" * 1025


class StoredState(Struct, frozen=True, gc=False):
    """A stored aggregate. `version` is at least 1, `state` is canonical JSON.

    The id of its last event is `<partition>/<offset>/<eventindex>`.
    """

    version: int
    offset: int
    eventindex: int
    state: bytes


class DedupEntry(Struct, frozen=True, gc=False):
    """The first decision on a (subject, id), which the outcome of a duplicate repeats."""

    timestamp: int  # of the command record, ms
    offset: int  # of the command record
    status: str  # accepted, unchanged or rejected
    version: int  # the aggregate's version after the decision
    events: int  # the number of events
    fingerprint: int  # CRC-32 of type, data and expected version as received
    partition: int | None = None  # of the command record, if a parent of this partition decided the command


def restore_dedup_entry(
    entries: dict[tuple[str, str], DedupEntry],
    outcome: OutcomeEnvelope,
    timestamp: int,
    partition: int | None = None,
) -> None:
    """Add the decision of an outcome to `entries`; skip an outcome whose status and reason are not remembered.

    An `ID_REUSED` is not remembered, so it never replaces the first decision on the id.

    `partition`: for an inherited decision, the partition that decided the command.
    """
    verdict = outcome.data
    if outcome.subject is None or outcome.causationid is None or not isinstance(verdict.fingerprint, int):
        return
    if not is_remembered(verdict.status, verdict.reason or None):
        return
    entries[outcome.subject, outcome.causationid] = DedupEntry(
        timestamp,
        verdict.offset,
        verdict.status,
        verdict.version,
        verdict.events,
        verdict.fingerprint,
        partition,
    )


class StateView(Protocol):
    """A consistent view of a partition's stored values."""

    greatest_id: str  # an upper bound of the command ids in the view

    def find_state(self, aggregate_id: str) -> StoredState | None:
        """Return the stored aggregate, None if it does not exist."""

    def deferred_view(self) -> DeferredView:
        """Return the deferred commands."""

    def find_dedup_entry(self, subject: str, command_id: str) -> DedupEntry | None:
        """Return the first decision on this command id; None for a new id, or if it is no longer remembered."""
