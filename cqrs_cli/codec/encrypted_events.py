"""Prepares events with encrypted members for readers: decrypted, or redacted if the key is erased. Pure functions."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from cqrs_cli.codec.ciphertext import kids_of_data
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, read_erased
from cqrs_cli.core.messages.json import read_members, write_members
from cqrs_cli.core.messages.payload_reference import with_data
from cqrs_cli.core.personal.encrypted_data import ENCRYPTED_MARKER, FindKey, decrypt_by_shape
from cqrs_cli.core.personal.encryption import ValueLocation, is_encrypted

_ERASED = ERASED.encode()


class PersonalMembers(NamedTuple):
    """The personal fields of an aggregate's events.

    Spark tasks get this value, since they do not load the aggregate's code.
    """

    aggregate: str
    #: Type on the wire → member → its redacted value as JSON.
    redacted_values: Mapping[str, Mapping[str, bytes]]


def personal_members(aggregate: Aggregate) -> PersonalMembers | None:
    """Return the personal fields of an aggregate's events; None for an aggregate without personal fields."""
    return _members_of(aggregate, aggregate.events) if aggregate.has_personal_fields else None


def redact_command(aggregate: Aggregate, document: bytes) -> bytes:
    """Return the document of a deferred command with redacted personal fields, as `redact_event` does for events."""
    if not aggregate.has_personal_fields:
        return document
    return redact_event(_members_of(aggregate, aggregate.commands), document)


def _members_of(aggregate: Aggregate, classes: Mapping[str, type[Struct]]) -> PersonalMembers:
    fields = {wire_type: aggregate.personal.fields_of(cls) for wire_type, cls in classes.items()}
    return PersonalMembers(
        aggregate.name,
        {
            wire_type: {field.wire_name: field.redacted_json for field in fields_of_type}
            for wire_type, fields_of_type in fields.items()
            if fields_of_type
        },
    )


class EncryptedEvent(Struct, gc=False):
    """An event with encrypted members, or an `Erased`."""

    id: str = ""
    type: str = ""
    subject: str = ""
    data: Raw = Raw(b"null")

    @property
    def erased_key(self) -> str | None:
        """The id of the key that an `Erased` erases; None for other events. Raises `ValueError` if it is malformed."""
        return read_erased(self.data).key if self.type == ERASED else None

    def kids(self) -> set[str]:
        """Return the key ids of the encrypted members; raises `NotEncryptedError` for a malformed member."""
        return kids_of_data(bytes(self.data))


_decode_event = msgspec.json.Decoder(EncryptedEvent).decode


def may_be_encrypted(value: bytes | None) -> bool:
    """False if an event certainly has no encrypted members and is no `Erased`: a cheap test before decoding."""
    return value is not None and (ENCRYPTED_MARKER in value or _ERASED in value)


def read_encrypted_event(value: bytes | None) -> EncryptedEvent | None:
    """Return the event in the value of a record if it may have encrypted members or is an `Erased`, else None.

    Return None also for a malformed event, which the reader of the record reports.
    """
    if value is None or not may_be_encrypted(value):
        return None
    try:
        event = _decode_event(value)
        if event.type != ERASED:
            read_members(event.data)
    except (ValueError, RecursionError):
        return None
    return event


def redact_event(personal: PersonalMembers, value: bytes) -> bytes:
    """Return an event's document with redacted personal fields, encrypted or plain. A malformed event is unchanged.

    If the event's class was removed from the code, its encrypted members become null.
    """
    try:
        event = _decode_event(value)
        members = read_members(event.data)
    except (ValueError, RecursionError):  # the reader of the record reports it
        return value
    redacted_values = personal.redacted_values.get(event.type, {})
    redactions = {
        name: Raw(redacted_values.get(name, b"null"))
        for name, member in members.items()
        if name in redacted_values or is_encrypted(bytes(member))
    }
    return with_data(value, write_members(members | redactions)) if redactions else value


def decrypt_event(personal: PersonalMembers, value: bytes, event: EncryptedEvent, find_key: FindKey) -> bytes:
    """Return the document `value` of an event with decrypted members; raises `DecryptionError`.

    Members whose key is erased become redacted values, or null if the code no longer has the event's class.
    """
    location = ValueLocation(personal.aggregate, event.subject, event.id, "")
    data, redacted_values = bytes(event.data), personal.redacted_values.get(event.type, {})
    decrypted = decrypt_by_shape(data, redacted_values, find_key, location)
    return value if decrypted is data else with_data(value, decrypted)
