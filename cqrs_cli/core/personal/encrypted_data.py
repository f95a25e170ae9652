"""Encrypts and decrypts the personal fields in the JSON of messages."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Raw, Struct

from cqrs_cli.core.messages.json import read_members, write_members
from cqrs_cli.core.personal.encryption import DataKey, LocationParts, ValueLocation, is_encrypted, kid_of
from cqrs_cli.core.personal.personal_fields import personal_fields

#: Returns the data key with an id; None if the key is erased.
FindKey = Callable[[str], DataKey | None]

_M = TypeVar("_M")

#: All data with an encrypted member contain these bytes, and hardly any other data do.
ENCRYPTED_MARKER = b'"$sealed"'


def personal_values(cls: type[Struct], data: bytes) -> Mapping[str, bytes]:
    """Return the personal members of a message (name → JSON), except redacted values, which need no key.

    Raises `ValueError` for data that are no object.
    """
    fields = personal_fields(cls)
    if not fields:
        return {}
    members = read_members(data)
    values = ((field, bytes(members[field.wire_name])) for field in fields if field.wire_name in members)
    return {field.wire_name: value for field, value in values if value != field.redacted_json}


def encrypted_members(data: bytes) -> dict[str, bytes]:
    """Return the members with the shape of an encrypted value (name → JSON). A member with JSON escapes may be missed,
    because cqrs writes encrypted values without escapes.

    Raises `ValueError` for data that contain `ENCRYPTED_MARKER` and are no object.
    """
    if ENCRYPTED_MARKER not in data:
        return {}
    return {name: bytes(value) for name, value in read_members(data).items() if is_encrypted(bytes(value))}


def encrypt_data(cls: type[Struct], data: bytes, key: DataKey, location: LocationParts) -> bytes:
    """Return the JSON of a message with encrypted personal members.

    `location` is the location of the message, to which the encryption is bound; its last part, the field, is ignored.
    """
    return encrypt_with_key_of(cls, data, lambda _: key, location)


def encrypt_with_key_of(
    cls: type[Struct], data: bytes, key_of: Callable[[str], DataKey | None], location: LocationParts
) -> bytes:
    """Encrypt as `encrypt_data` does, but call `key_of(subject)` only if a personal member needs encryption.

    If the subject has no key, the data are unchanged.
    """
    fields, key = personal_fields(cls), None
    if not fields:
        return data
    members, (aggregate, subject, message_location, _) = read_members(data), location
    for _, wire, redacted_json, _ in fields:
        raw = members.get(wire)
        if raw is None or (value := bytes(raw)) == redacted_json:
            continue
        if key is None and (key := key_of(subject)) is None:
            return data
        members[wire] = Raw(key.encrypt(value, (aggregate, subject, message_location, wire)))
    return data if key is None else write_members(members)


def decrypt_data(cls: type[Struct] | None, data: bytes, find_key: FindKey, location: ValueLocation) -> bytes:
    """Return the JSON of a message with decrypted members; members whose key is erased are redacted.

    A plain member is unchanged: it was written before its field was annotated as personal, or it is a redacted value.
    Every encrypted member is decrypted, even if `cls` no longer has a field of this name, because an upcaster may read
    it. `cls` is the message's class, None for an event whose class was removed from the code. Raises `DecryptionError`
    for a member that its key cannot decrypt.
    """
    redacted_values = (
        {} if cls is None else {field.wire_name: field.redacted_json for field in personal_fields(cls)}
    )
    return decrypt_by_shape(data, redacted_values, find_key, location)


def decrypt_by_shape(
    data: bytes, redacted_values: Mapping[str, bytes], find_key: FindKey, location: ValueLocation
) -> bytes:
    """Decrypt as `decrypt_data` does, without the class of the message, as for an event whose class was removed.

    Every member with the shape of an encrypted value is decrypted; no plain member may have this shape
    (`has_encrypted_shape`). `redacted_values` holds redacted values as JSON, by member. Without an entry, a member
    whose key is erased becomes null.
    """
    values = {name: bytes(value) for name, value in read_members(data).items()}
    return _decrypt_members(data, values, redacted_values, find_key, location)


def has_encrypted_shape(data: bytes) -> bool:
    """True if a member has the shape of an encrypted value, also with JSON escapes. No plain member may have it."""
    return may_look_encrypted(data) and any(
        is_encrypted(bytes(value)) for value in read_members(data).values()
    )


def may_look_encrypted(data: bytes) -> bool:
    """A cheap test before `has_encrypted_shape`, which is False whenever this test is False.

    Data with a backslash give True, because a JSON escape may hide the marker.
    """
    return ENCRYPTED_MARKER in data or b"\\" in data


def redacting_decoder(decode: Callable[[bytes], _M], cls: type[Struct] | None) -> Callable[[bytes], _M]:
    """Return a decoder that redacts encrypted members before `decode`.

    It reads messages whose key is erased, and serves readers without a keyring. `cls` is the class of the message; None
    for a retired event, whose encrypted members become null.
    """
    unused_location = ValueLocation("", "", "", "")  # redacting decrypts nothing

    def decode_redacted(data: bytes) -> _M:
        if ENCRYPTED_MARKER in bytes(data):
            data = decrypt_data(cls, bytes(data), _no_key, unused_location)
        return decode(data)

    return decode_redacted


def _no_key(_: str) -> None:
    return None


def _decrypt_members(
    data: bytes,
    values: Mapping[str, bytes],
    redacted_values: Mapping[str, bytes],
    find_key: FindKey,
    location: ValueLocation,
) -> bytes:
    decrypted: dict[str, Raw] = {}
    for name, value in values.items():
        if ENCRYPTED_MARKER in value and is_encrypted(value):
            key = find_key(kid_of(value))
            plain = (
                redacted_values.get(name, b"null")
                if key is None
                else key.decrypt(value, location._replace(field=name))
            )
            decrypted[name] = Raw(plain)
    return write_members(read_members(data) | decrypted) if decrypted else data
