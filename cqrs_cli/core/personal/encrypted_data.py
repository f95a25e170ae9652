"""Encrypts and decrypts the personal fields in the JSON of messages."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Raw, Struct

from cqrs_cli.core.messages.json import read_members, write_members
from cqrs_cli.core.personal.encryption import DataKey, PlaceParts, SealPlace, is_sealed, kid_of
from cqrs_cli.core.personal.personal_fields import personal_fields

#: Returns the data key with an id; None if the key is erased.
FindKey = Callable[[str], DataKey | None]

_M = TypeVar("_M")

#: All data with an encrypted member contain these bytes, and hardly any other data do.
SEAL_MARK = b'"$sealed"'


def personal_values(cls: type[Struct], data: bytes) -> Mapping[str, bytes]:
    """Return the personal members in the JSON of a message, except redacted values, which need no key.

    Raises `ValueError` for data that are no object.
    """
    fields = personal_fields(cls)
    if not fields:
        return {}
    there = read_members(data)
    values = ((one, bytes(there[one.wire])) for one in fields if one.wire in there)
    return {one.wire: value for one, value in values if value != one.erased}


def sealed_members(data: bytes) -> dict[str, bytes]:
    """Return the members that have the shape of an encrypted value, in the spelling of cqrs, which has no escapes.

    Raises `ValueError` for data that contain `SEAL_MARK` and are no object.
    """
    if SEAL_MARK not in data:
        return {}
    return {name: bytes(value) for name, value in read_members(data).items() if is_sealed(bytes(value))}


def kids_in(data: bytes) -> set[str]:
    """Return the key ids of the encrypted members; raises `ValueError` for a malformed member."""
    return {kid_of(value) for value in sealed_members(data).values()}


def seal_data(cls: type[Struct], data: bytes, key: DataKey, place: PlaceParts) -> bytes:
    """Return the JSON of a message with encrypted personal members.

    `place` is the location of the message, to which the encryption is bound; its last part, the field, is ignored.
    """
    return seal_needed(cls, data, lambda _: key, place)


def seal_needed(
    cls: type[Struct], data: bytes, key_of: Callable[[str], DataKey | None], place: PlaceParts
) -> bytes:
    """Encrypt as `seal_data` does, but call `key_of(subject)` only if a personal member needs encryption.

    If the subject has no key, the data are unchanged.
    """
    fields, key = personal_fields(cls), None
    if not fields:
        return data
    there, (aggregate, subject, at, _) = read_members(data), place
    for _, wire, erased, _ in fields:
        raw = there.get(wire)
        if raw is None or (value := bytes(raw)) == erased:
            continue
        if key is None and (key := key_of(subject)) is None:
            return data
        there[wire] = Raw(key.seal(value, (aggregate, subject, at, wire)))
    return data if key is None else write_members(there)


def open_data(cls: type[Struct] | None, data: bytes, find_key: FindKey, place: SealPlace) -> bytes:
    """Return the JSON of a message with decrypted members; members whose key is erased are redacted.

    A plain member is unchanged: it is older than the annotation of its field, or a redacted value. Every encrypted
    member is decrypted, also under an old name that only an upcaster knows. `cls` is the message's class, None for an
    event whose class was removed from the code. Raises `SealError` for a member that its key cannot decrypt.
    """
    erased = {} if cls is None else {one.wire: one.erased for one in personal_fields(cls)}
    return open_retired(data, erased, find_key, place)


def open_retired(data: bytes, erased: Mapping[str, bytes], find_key: FindKey, place: SealPlace) -> bytes:
    """Decrypt as `open_data` does, without the class of the message: for an upcaster of a removed event.

    A member is encrypted if it has the shape of an encrypted value; no plain member may have this shape (`has_seals`).
    `erased` holds redacted values as JSON, by member. Without an entry, a member whose key is erased becomes null.
    """
    values = {name: bytes(value) for name, value in read_members(data).items()}
    return _opened(data, values, erased, find_key, place)


def has_seals(data: bytes) -> bool:
    """True if a member has the shape of an encrypted value, in any spelling; senders and `decide` may not use it."""
    return may_look_sealed(data) and any(is_sealed(bytes(value)) for value in read_members(data).values())


def may_look_sealed(data: bytes) -> bool:
    """False if `has_seals` is certainly false: a cheap test. A backslash may hide the mark in an escape sequence."""
    return SEAL_MARK in data or b"\\" in data


def sealed_as_placeholders(decode: Callable[[bytes], _M], cls: type[Struct] | None) -> Callable[[bytes], _M]:
    """Return a decoder that redacts encrypted members before `decode`.

    It reads messages whose key is erased, and serves readers without a keyring. `cls` is the class of the message; None
    for a retired event, whose encrypted members become null.
    """
    nowhere = SealPlace("", "", "", "")

    def decode_as_placeholders(data: bytes) -> _M:
        if SEAL_MARK in bytes(data):
            data = open_data(cls, bytes(data), _no_key, nowhere)
        return decode(data)

    return decode_as_placeholders


def _no_key(_: str) -> None:
    return None


def _opened(
    data: bytes, values: Mapping[str, bytes], erased: Mapping[str, bytes], find_key: FindKey, place: SealPlace
) -> bytes:
    opened: dict[str, Raw] = {}
    for name, value in values.items():
        if SEAL_MARK in value and is_sealed(value):
            key = find_key(kid_of(value))
            plain = erased.get(name, b"null") if key is None else key.open(value, place._replace(field=name))
            opened[name] = Raw(plain)
    return write_members(read_members(data) | opened) if opened else data
