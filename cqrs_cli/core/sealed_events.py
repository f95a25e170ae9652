"""Events with sealed members, on their way to a reader: opened, or with placeholders where the key is gone. Pure."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, read_erased
from cqrs_cli.core.messages.json import read_members, write_members
from cqrs_cli.core.messages.payload_reference import with_data
from cqrs_cli.core.personal.marks import personal_fields
from cqrs_cli.core.personal.sealed_data import SEAL_MARK, FindKey, kids_in, open_retired
from cqrs_cli.core.personal.sealing import SealPlace, is_sealed

_ERASED = ERASED.encode()


class EventMarks(NamedTuple):
    """The personal fields of an aggregate's events, as a value that travels to each task: it needs no code."""

    aggregate: str
    placeholders: Mapping[str, Mapping[str, bytes]]  # type on the wire → member → its placeholder as JSON


def event_marks(aggregate: Aggregate) -> EventMarks | None:
    """The marks of an aggregate; None for one without personal fields, whose events have no sealed members."""
    return _marks_of(aggregate, aggregate.events) if aggregate.has_personal_fields else None


def masked_command(aggregate: Aggregate, document: bytes) -> bytes:
    """The document of a deferred command with placeholders in its personal fields, as `masked_event` gives it."""
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
    """An event that a key may be needed for, or that ends one."""

    id: str = ""
    type: str = ""
    subject: str = ""
    data: Raw = Raw(b"null")

    @property
    def ends(self) -> str | None:
        """The id of the key that it ends: for an `Erased`. Raises `ValueError` for one that is malformed."""
        return read_erased(self.data).key if self.type == ERASED else None

    def kids(self) -> set[str]:
        """The ids of the keys that its sealed members name; raises `NotSealedError` for one that names none."""
        return kids_in(bytes(self.data))


_read_marked = msgspec.json.Decoder(MarkedEvent).decode


def may_be_marked(value: bytes | None) -> bool:
    """False for the record of an event that needs no key, and ends none: a cheap test."""
    return value is not None and (SEAL_MARK in value or _ERASED in value)


def read_marked(value: bytes | None) -> MarkedEvent | None:
    """The event in a record that has sealed members or is an `Erased`.

    None for any other record, and for one that is no event: who reads it refuses it.
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
    """The document of an event with placeholders in its personal fields, sealed or plain; as it is if it is no event.

    Events whose class is gone have null in the place of what is sealed.
    """
    try:
        event = _read_marked(value)
        members = read_members(event.data)
    except (ValueError, RecursionError):  # who reads it refuses it
        return value
    erased = marks.placeholders.get(event.type, {})
    masks = {
        name: Raw(erased.get(name, b"null"))
        for name, member in members.items()
        if name in erased or is_sealed(bytes(member))
    }
    return with_data(value, write_members(members | masks)) if masks else value


def open_event(marks: EventMarks, value: bytes, event: MarkedEvent, find_key: FindKey) -> bytes:
    """The document `value` of an event with its sealed members opened; raises `SealError`.

    Placeholders stand for those whose key is gone, null for those of an event whose class is gone.
    """
    place = SealPlace(marks.aggregate, event.subject, event.id, "")
    data, erased = bytes(event.data), marks.placeholders.get(event.type, {})
    opened = open_retired(data, erased, find_key, place)
    return value if opened is data else with_data(value, opened)
