"""Rebuilds the deferred commands at the start of a simulated range, from the outcomes before the range."""

from collections.abc import Callable, Iterable

from msgspec import UNSET
from msgspec.structs import replace

from cqrs_cli.core.deferral.entry import Deferral, EntryKey, entry_key_of
from cqrs_cli.core.messages.outcome import DeferredTarget, OutcomeEnvelope
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.proof.whatif.decided import OwnerRecord

#: Returns the entry of the deferred topic with a key, or None.
FindEntry = Callable[[str], Deferral | None]


def deferred_changes(
    outcomes: Iterable[OwnerRecord[OutcomeEnvelope]], find_before: FindEntry, topic_id: str
) -> dict[str, Deferral | None]:
    """Return the entries of the deferred topic that these outcomes change: key → new entry, or None if it is removed.

    `find_before` returns the entry before these outcomes. `topic_id`: the id of the commands topic.

    The entries have an empty command, because a simulation does not resubmit: the log has the resubmitted commands.
    """
    changes: dict[str, Deferral | None] = {}
    find_latest: FindEntry = lambda key: changes[key] if key in changes else find_before(key)  # noqa: E731
    for outcome_record in outcomes:
        outcome, verdict = outcome_record.message, outcome_record.message.data
        is_resubmitted = isinstance(verdict.deferredfrom, str)
        if is_resubmitted or (verdict.status == "deferred" and verdict.reason != Reason.MOVED.name):
            entry_key = EntryKey(topic_id, verdict.offset)
            if is_resubmitted:
                entry_key = entry_key_of(verdict.deferredfrom or "", topic_id, verdict.partition)
            key = str(entry_key)
            changes[key] = (
                _deferred(outcome_record, entry_key, find_latest(key))
                if verdict.status == "deferred"
                else None
            )
        if isinstance(verdict.target, DeferredTarget):
            parent_partition = None if verdict.target.partition is UNSET else verdict.target.partition
            key = str(EntryKey(topic_id, verdict.target.offset, parent_partition))
            cancels = outcome.type.startswith("cqrs.Cancel.")
            if (entry := find_latest(key)) is not None:
                changes[key] = replace(entry, due=0, cancelled=entry.cancelled or cancels)
    return changes


def _deferred(
    outcome_record: OwnerRecord[OutcomeEnvelope], entry_key: EntryKey, earlier: Deferral | None
) -> Deferral:
    """Return the entry after an outcome that defers its command for the first time or again."""
    outcome, verdict = outcome_record.message, outcome_record.message.data
    due, attempt, reason = parse_timestamp(verdict.due or ""), verdict.attempt or 0, verdict.reason or ""
    if earlier is not None and reason == Reason.NOT_YET.name:
        return earlier  # the command was resubmitted too early
    if earlier is not None:
        return replace(earlier, due=due, attempt=attempt, reason=reason)
    return Deferral(
        topic_id=entry_key.topic_id,
        offset=entry_key.offset,
        partition=entry_key.partition,
        subject=outcome.subject or "",
        id=outcome.causationid or "",
        fingerprint=verdict.fingerprint or 0,
        version=verdict.version,
        timestamp=outcome_record.record.timestamp,
        due=due,
        attempt=attempt,
        reason=reason,
        command=b"{}",
    )
