"""The values that a partition keeps: the pure core asks for them, a store keeps them."""

from typing import Protocol

from msgspec import Struct

from cqrs_cli.core.deferral.entry import DeferredView
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.messages.reasons import is_remembered


class StoredState(Struct, frozen=True, gc=False):
    """An aggregate as it is stored; `version` ≥ 1, `state` is canonical JSON.

    Its last event's id is `<partition>/<offset>/<index>`.
    """

    version: int
    offset: int
    eventindex: int
    state: bytes


class DedupEntry(Struct, frozen=True, gc=False):
    """The first decision on a (subject, id): what a duplicate is answered with."""

    timestamp: int  # of the command record, ms
    offset: int  # of the command record
    status: str  # accepted, unchanged or rejected
    version: int  # of the aggregate after it
    events: int
    fingerprint: int  # CRC-32 of type, data and expected version as received
    partition: int | None = None  # of the command record, if a parent of the partition decided it


def remember(
    into: dict[tuple[str, str], DedupEntry],
    outcome: OutcomeEnvelope,
    timestamp: int,
    partition: int | None = None,
) -> None:
    """Remember a decision again from its outcome. An `ID_REUSED` never replaces what is remembered.

    `partition`: the one that has decided, if another one inherits it.
    """
    verdict = outcome.data
    if outcome.subject is None or outcome.causationid is None or not isinstance(verdict.fingerprint, int):
        return
    if not is_remembered(verdict.status, verdict.reason or None):
        return
    into[outcome.subject, outcome.causationid] = DedupEntry(
        timestamp,
        verdict.offset,
        verdict.status,
        verdict.version,
        verdict.events,
        verdict.fingerprint,
        partition,
    )


class StateView(Protocol):
    """A consistent view of the values that a partition keeps."""

    def saved(self, aggregate_id: str) -> StoredState | None:
        """The aggregate as it is stored, None if it does not exist."""

    def deferred(self) -> DeferredView:
        """The deferred commands."""

    def remembered(self, subject: str, command_id: str) -> DedupEntry | None:
        """The first decision on this command, None if there is none or it has been dropped."""
