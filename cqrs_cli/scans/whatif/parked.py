"""The commands that wait when a stretch of history begins, by the outcomes before it."""

from cqrs_cli.core.deferral.entry import Deferral, EntryKey, key_of_place
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.proof.whatif.decided import OwnerRecord


def change_of(placed: OwnerRecord[OutcomeEnvelope]) -> tuple[str, Deferral | None] | None:
    """The key of an entry that an outcome makes, changes or, None, ends; None if it is about none.

    The command itself is not in it: history says it again, nobody else.
    """
    outcome, said = placed.message, placed.message.data
    again = isinstance(said.deferredfrom, str)
    if said.status != "deferred" and not again:
        return None
    place = key_of_place(said.deferredfrom or "", "", said.partition) if again else EntryKey("", said.offset)
    if said.status != "deferred":
        return str(place), None
    return str(place), Deferral(
        topic=place.topic,
        offset=place.offset,
        partition=place.partition,
        subject=outcome.subject or "",
        id=outcome.causationid or "",
        fingerprint=said.fingerprint or 0,
        version=said.version,
        timestamp=placed.record.timestamp,
        due=parse_timestamp(said.due or ""),
        attempt=said.attempt or 0,
        reason=said.reason or "",
        command=b"{}",
    )
