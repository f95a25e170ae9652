"""Prepares events with encrypted members for readers: decrypted, or redacted if the key is erased. Pure functions."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, read_erased
from cqrs_cli.core.messages.json import read_members, write_members
from cqrs_cli.core.messages.payload_reference import with_data
from cqrs_cli.core.personal.encrypted_data import SEAL_MARK, FindKey, kids_in, open_retired
from cqrs_cli.core.personal.encryption import SealPlace, is_sealed
from cqrs_cli.core.personal.personal_fields import personal_fields

_ERASED = ERASED.encode()


class EventMarks(NamedTuple):
    """The personal fields of an aggregate's events. Spark tasks get this value instead of the aggregate's code."""

    aggregate: str
    placeholders: Mapping[str, Mapping[str, bytes]]  # type on the wire → member → its redacted value as JSON


def event_marks(aggregate: Aggregate) -> EventMarks | None:
    """Return the personal fields of an aggregate's events; None for an aggregate without personal fields."""
    return _marks_of(aggregate, aggregate.events) if aggregate.has_personal_fields else None


def masked_command(aggregate: Aggregate, document: bytes) -> bytes:
    """Return the document of a deferred command with redacted personal fields, as `masked_event` does for events."""
    if not aggregate.has_personal_fields:
        return document
    return masked_event(_marks_of(aggregate, aggregate.commands), document)


def _marks_of(aggregate: Aggregate, classes: Mapping[str, type[Struct]]) -> EventMarks:
    fields = {kind: personal_fields(cls) for kind, cls in classes.items()}
    return EventMarks(
        aggregate.name,
        {kind: {one.wire: one.erased for one in some} for kind, some in fields.items() if some},
    )


class MarkedEvent(Struct, gc=False):
    """An event with encrypted members, or an `Erased`."""

    id: str = ""
    type: str = ""
    subject: str = ""
    data: Raw = Raw(b"null")

    @property
    def ends(self) -> str | None:
        """The id of the key that an `Erased` erases; None for other events. Raises `ValueError` if it is malformed."""
        return read_erased(self.data).key if self.type == ERASED else None

    def kids(self) -> set[str]:
        """Return the key ids of the encrypted members; raises `NotSealedError` for a malformed member."""
        return kids_in(bytes(self.data))


_read_marked = msgspec.json.Decoder(MarkedEvent).decode


def may_be_marked(value: bytes | None) -> bool:
    """False if an event certainly has no encrypted members and is no `Erased`: a cheap test before decoding."""
    return value is not None and (SEAL_MARK in value or _ERASED in value)


def read_marked(value: bytes | None) -> MarkedEvent | None:
    """Return the event of a record if it may have encrypted members or is an `Erased`, else None.

    None also for a malformed event: the reader of the record reports it.
    """
    if value is None or not may_be_marked(value):
        return None
    try:
        event = _read_marked(value)
        if event.type != ERASED:
            read_members(event.data)
    except (ValueError, RecursionError):
        return None
    return event


def masked_event(marks: EventMarks, value: bytes) -> bytes:
    """Return an event's document with redacted personal fields, encrypted or plain. A malformed event is unchanged.

    If the event's class was removed from the code, its encrypted members become null.
    """
    try:
        event = _read_marked(value)
        members = read_members(event.data)
    except (ValueError, RecursionError):  # the reader of the record reports it
        return value
    erased = marks.placeholders.get(event.type, {})
    masks = {
        name: Raw(erased.get(name, b"null"))
        for name, member in members.items()
        if name in erased or is_sealed(bytes(member))
    }
    return with_data(value, write_members(members | masks)) if masks else value


def open_event(marks: EventMarks, value: bytes, event: MarkedEvent, find_key: FindKey) -> bytes:
    """Return the document `value` of an event with decrypted members; raises `SealError`.

    Members whose key is erased become redacted values; without the event's class they become null.
    """
    place = SealPlace(marks.aggregate, event.subject, event.id, "")
    data, erased = bytes(event.data), marks.placeholders.get(event.type, {})
    opened = open_retired(data, erased, find_key, place)
    return value if opened is data else with_data(value, opened)
