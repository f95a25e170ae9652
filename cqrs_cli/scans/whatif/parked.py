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
Find = Callable[[str], Deferral | None]


def changes_of(
    outcomes: Iterable[OwnerRecord[OutcomeEnvelope]], before: Find, topic_id: str
) -> dict[str, Deferral | None]:
    """Return the entries that these outcomes add or change, by key; None for an entry that they end. `before` finds an
    entry before these outcomes; `topic_id` is the id of the commands topic.

    The entries lack the commands, because only the logged resubmissions are decided again.
    """
    changed: dict[str, Deferral | None] = {}
    find: Find = lambda key: changed[key] if key in changed else before(key)  # noqa: E731
    for placed in outcomes:
        outcome, said = placed.message, placed.message.data
        again = isinstance(said.deferredfrom, str)
        if again or (said.status == "deferred" and said.reason != Reason.MOVED.name):
            place = EntryKey(topic_id, said.offset)
            if again:
                place = entry_key_of(said.deferredfrom or "", topic_id, said.partition)
            key = str(place)
            changed[key] = _deferred(placed, place, find(key)) if said.status == "deferred" else None
        if isinstance(said.target, DeferredTarget):
            inherited = None if said.target.partition is UNSET else said.target.partition
            key = str(EntryKey(topic_id, said.target.offset, inherited))
            cancels = outcome.type.startswith("cqrs.Cancel.")
            if (entry := find(key)) is not None:
                changed[key] = replace(entry, due=0, cancelled=entry.cancelled or cancels)
    return changed


def _deferred(placed: OwnerRecord[OutcomeEnvelope], place: EntryKey, before: Deferral | None) -> Deferral:
    """Return the entry after an outcome that defers its command for the first time or again."""
    outcome, said = placed.message, placed.message.data
    due, attempt, reason = parse_timestamp(said.due or ""), said.attempt or 0, said.reason or ""
    if before is not None and reason == Reason.NOT_YET.name:
        return before  # it was resubmitted too early
    if before is not None:
        return replace(before, due=due, attempt=attempt, reason=reason)
    return Deferral(
        topic=place.topic,
        offset=place.offset,
        partition=place.partition,
        subject=outcome.subject or "",
        id=outcome.causationid or "",
        fingerprint=said.fingerprint or 0,
        version=said.version,
        timestamp=placed.record.timestamp,
        due=due,
        attempt=attempt,
        reason=reason,
        command=b"{}",
    )
