"""The JSON of messages with their personal fields sealed, and opened again."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from msgspec import Raw, Struct

from cqrs_cli.core.messages.json import read_members, write_members
from cqrs_cli.core.personal.marks import personal_fields
from cqrs_cli.core.personal.sealing import DataKey, PlaceParts, SealPlace, is_sealed, kid_of

#: The key with an id; None for one that is gone.
FindKey = Callable[[str], DataKey | None]

_M = TypeVar("_M")

#: In all data that have a sealed member, and in few others.
SEAL_MARK = b'"$sealed"'


def personal_values(cls: type[Struct], data: bytes) -> Mapping[str, bytes]:
    """The personal members of a message in JSON that say something: a placeholder needs no key.

    Raises `ValueError` for data that are no object.
    """
    fields = personal_fields(cls)
    if not fields:
        return {}
    there = read_members(data)
    values = ((one, bytes(there[one.wire])) for one in fields if one.wire in there)
    return {one.wire: value for one, value in values if value != one.erased}


def sealed_members(data: bytes) -> dict[str, bytes]:
    """The members of data in JSON that have the shape of a sealed value, as cqrs writes it: without escapes.

    Raises `ValueError` for data that are no object, and may have one.
    """
    if SEAL_MARK not in data:
        return {}
    return {name: bytes(value) for name, value in read_members(data).items() if is_sealed(bytes(value))}


def kids_in(data: bytes) -> set[str]:
    """The ids of the keys that sealed members name; raises `ValueError` for one that names none."""
    return {kid_of(value) for value in sealed_members(data).values()}


def seal_data(cls: type[Struct], data: bytes, key: DataKey, place: PlaceParts) -> bytes:
    """The JSON of a message with its personal members sealed; `place` is the message's, its field does not count."""
    return seal_needed(cls, data, lambda _: key, place)


def seal_needed(
    cls: type[Struct], data: bytes, key_of: Callable[[str], DataKey | None], place: PlaceParts
) -> bytes:
    """The same; the subject's key is asked for only if a member says something. Without one the data stay."""
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
    """The JSON of a message with its sealed members opened: placeholders where the key is gone.

    A member that is not sealed stays: it was written before its field was marked, or is a placeholder. One that is
    opens by whatever name it has: an upcaster may know it by an earlier one. `cls`: its class; None for an event whose
    class is gone. Raises `SealError` for one that names its key and does not open.
    """
    erased = {} if cls is None else {one.wire: one.erased for one in personal_fields(cls)}
    return open_retired(data, erased, find_key, place)


def open_retired(data: bytes, erased: Mapping[str, bytes], find_key: FindKey, place: SealPlace) -> bytes:
    """The same for an event whose class is gone, before its upcaster gets it.

    No marks say which members are sealed, so each one is that has the shape: no plain member may have it (`has_seals`).
    `erased`: placeholders as JSON, by member. A member without one is null when its key is gone.
    """
    values = {name: bytes(value) for name, value in read_members(data).items()}
    return _opened(data, values, erased, find_key, place)


def has_seals(data: bytes) -> bool:
    """True if a member has the shape of a sealed value, however it is spelt. Senders and `decide` may not give one."""
    return may_look_sealed(data) and any(is_sealed(bytes(value)) for value in read_members(data).values())


def may_look_sealed(data: bytes) -> bool:
    """False for data in which `has_seals` finds nothing: escapes may spell the mark."""
    return SEAL_MARK in data or b"\\" in data


def sealed_as_placeholders(decode: Callable[[bytes], _M], cls: type[Struct] | None) -> Callable[[bytes], _M]:
    """`decode`, for data in which members are still sealed: their placeholders stand for them.

    So a message is read whose key is gone, and by who has no ring. `cls`: its class; None for a retired event, whose
    sealed members are null then.
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
