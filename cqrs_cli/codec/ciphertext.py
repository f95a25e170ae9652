"""Finds key ids and unencrypted personal values in stored records, for verification. Nothing is decrypted."""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from cqrs_cli.core.aggregate.erased import ERASED, read_erased
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encrypted_data import (
    ENCRYPTED_MARKER,
    encrypted_members,
    has_encrypted_shape,
    personal_values,
)
from cqrs_cli.core.personal.encryption import (
    KID_BYTES,
    DecryptionError,
    from_base64url,
    is_encrypted,
    kid_of,
)
from cqrs_cli.core.personal.text_redaction import personal_texts_in
from cqrs_cli.keys.topic import read_key


class EventKey(NamedTuple):
    """The data key of an event: the key that encrypts its members, or, with `is_erasure`, the key that it deletes."""

    kid: str
    is_erasure: bool = False


def key_of_event(event: EventEnvelope) -> EventKey | None:
    """Return the key of an event; None if no member is encrypted.

    Raises `ValueError` if the event uses several keys, or if an `Erased` has an invalid key id.
    """
    if event.type == ERASED:
        kid = read_erased(event.data).key
        if len(from_base64url(kid)) != KID_BYTES:
            raise ValueError(f"{kid!r:.50} is not a key id")
        return EventKey(kid, is_erasure=True)
    kids = kids_of_data(bytes(event.data))
    if len(kids) > 1:
        raise ValueError(f"it is encrypted with the keys {' and '.join(sorted(kids))}")
    return EventKey(kids.pop()) if kids else None


def kids_of_data(data: bytes) -> set[str]:
    """Return the key ids of the encrypted members; raises `ValueError` for a malformed member."""
    return {kid_of(value) for value in encrypted_members(data).values()}


class _Document(Struct):
    data: Raw = Raw(b"{}")


_document = msgspec.json.Decoder(_Document).decode


def kids_of_document(document: bytes) -> set[str]:
    """Return the key ids in a command document; an empty set if it is not valid JSON."""
    if ENCRYPTED_MARKER not in document:
        return set()
    try:
        return kids_of_data(bytes(_document(document).data))
    except (ValueError, RecursionError):
        return set()


def has_encrypted_members(data: bytes) -> bool:
    """True if a member has the shape of an encrypted value, also with JSON escapes. False for invalid JSON."""
    try:
        return has_encrypted_shape(data)
    except (ValueError, RecursionError):
        return False


def kid_of_key_record(record: Record) -> str | None:
    """Return the id of the data key in a record of the keys topic; None for a tombstone or an invalid record."""
    try:
        wrapped = read_key(record.value)
    except ValueError:
        return None
    return None if wrapped is None else wrapped.kid


class PersonalValue(NamedTuple):
    """A personal member of a message, and the id of its key. If the member is not encrypted, or is malformed, `kid` is
    None, and `problem` describes the fault.
    """

    name: str
    kid: str | None
    problem: str = ""


def personal_kids(cls: type[Struct], data: bytes) -> Iterator[PersonalValue]:
    """Yield the personal members in the JSON of a message, except redacted values, which need no key.

    The problems never contain personal data. Raises `ValueError` for data that are no object.
    """
    for name, value in personal_values(cls, data).items():
        if not is_encrypted(value):
            yield PersonalValue(name, None, f"a plain value in the personal field {name!r}")
            continue
        try:
            yield PersonalValue(name, kid_of(value))
        except DecryptionError as error:
            yield PersonalValue(name, None, f"no encrypted value in {name!r}: {error}")


class PlainFields(NamedTuple):
    """The personal fields of a message in plain text, and their values as texts."""

    names: list[str]
    texts: set[str]


def plain_fields(cls: type[Struct] | None, data: bytes) -> PlainFields:
    """Return the plain-text personal fields in a message's JSON. The result is empty if the code has no class for the
    message, or if the JSON does not match the class.
    """
    if cls is None:
        return PlainFields([], set())
    try:
        names = [name for name, value in personal_values(cls, data).items() if not is_encrypted(value)]
    except (ValueError, RecursionError):
        return PlainFields([], set())
    return PlainFields(names, personal_texts_in(cls, data) if names else set())
