"""The deferred commands at the start of a simulated range, from the outcomes before it."""

from collections.abc import Callable, Iterable

from msgspec import UNSET
from msgspec.structs import replace

from cqrs_cli.core.deferral.entry import Deferral, EntryKey, entry_key_of
from cqrs_cli.core.messages.outcome import DeferredTarget, OutcomeEnvelope
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.proof.whatif.decided import OwnerRecord

#: Returns the entry with a key, or None.
FindEntry = Callable[[str], Deferral | None]


def deferred_changes(
    outcomes: Iterable[OwnerRecord[OutcomeEnvelope]], find_before: FindEntry, topic_id: str
) -> dict[str, Deferral | None]:
    """Return the entries that these outcomes add or change, by key; None for an entry that they end.

    `find_before` finds an entry before these outcomes; `topic_id` is the id of the commands topic.

    The entries lack the commands, because only the logged resubmissions are decided again.
    """
    changed: dict[str, Deferral | None] = {}
    find: FindEntry = lambda key: changed[key] if key in changed else find_before(key)  # noqa: E731
    for logged in outcomes:
        outcome, verdict = logged.message, logged.message.data
        is_resubmitted = isinstance(verdict.deferredfrom, str)
        if is_resubmitted or (verdict.status == "deferred" and verdict.reason != Reason.MOVED.name):
            place = EntryKey(topic_id, verdict.offset)
            if is_resubmitted:
                place = entry_key_of(verdict.deferredfrom or "", topic_id, verdict.partition)
            key = str(place)
            changed[key] = _deferred(logged, place, find(key)) if verdict.status == "deferred" else None
        if isinstance(verdict.target, DeferredTarget):
            inherited = None if verdict.target.partition is UNSET else verdict.target.partition
            key = str(EntryKey(topic_id, verdict.target.offset, inherited))
            cancels = outcome.type.startswith("cqrs.Cancel.")
            if (entry := find(key)) is not None:
                changed[key] = replace(entry, due=0, cancelled=entry.cancelled or cancels)
    return changed


def _deferred(logged: OwnerRecord[OutcomeEnvelope], place: EntryKey, earlier: Deferral | None) -> Deferral:
    """Return the entry after an outcome that defers its command for the first time or again."""
    outcome, verdict = logged.message, logged.message.data
    due, attempt, reason = parse_timestamp(verdict.due or ""), verdict.attempt or 0, verdict.reason or ""
    if earlier is not None and reason == Reason.NOT_YET.name:
        return earlier  # it was resubmitted too early
    if earlier is not None:
        return replace(earlier, due=due, attempt=attempt, reason=reason)
    return Deferral(
        topic=place.topic,
        offset=place.offset,
        partition=place.partition,
        subject=outcome.subject or "",
        id=outcome.causationid or "",
        fingerprint=verdict.fingerprint or 0,
        version=verdict.version,
        timestamp=logged.record.timestamp,
        due=due,
        attempt=attempt,
        reason=reason,
        command=b"{}",
    )
