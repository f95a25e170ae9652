"""The JSON of messages with their personal fields sealed, and opened again."""

from collections.abc import Callable, Mapping

from msgspec import Raw, Struct

from cqrs_cli.core.messages.json import read_members, write_members
from cqrs_cli.core.personal.marks import personal_fields
from cqrs_cli.core.personal.sealing import DataKey, SealPlace, is_sealed, kid_of

#: The key with an id; None for one that is gone.
FindKey = Callable[[str], DataKey | None]


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


def kids_of(cls: type[Struct], data: bytes) -> set[str]:
    """The ids of the keys that the sealed members name; raises `NotSealedError` for one that names none."""
    return {kid_of(value) for value in personal_values(cls, data).values() if is_sealed(value)}


def seal_data(cls: type[Struct], data: bytes, key: DataKey, place: SealPlace) -> bytes:
    """The JSON of a message with its personal members sealed; `place` is the message's, its field does not count."""
    values = personal_values(cls, data)
    if not values:
        return data
    sealed = {name: Raw(key.seal(value, place._replace(field=name))) for name, value in values.items()}
    return write_members(read_members(data) | sealed)


def open_data(cls: type[Struct], data: bytes, find_key: FindKey, place: SealPlace) -> bytes:
    """The JSON of a message with its sealed members opened: placeholders where the key is gone.

    A member that is not sealed stays: it was written before its field was marked, or is a placeholder. Raises
    `SealError` for one that names its key and does not open.
    """
    opened: dict[str, Raw] = {}
    erased = {one.wire: one.erased for one in personal_fields(cls)}
    for name, value in personal_values(cls, data).items():
        if is_sealed(value):
            key = find_key(kid_of(value))
            plain = erased[name] if key is None else key.open(value, place._replace(field=name))
            opened[name] = Raw(plain)
    return write_members(read_members(data) | opened) if opened else data
