"""Turns a shard's keys and values into bytes and back. Raise `CODEC` with any change: every shard is rebuilt then.

    states    key: the aggregate id, UTF-8               value: version, offset, index, then the state's JSON
    ids       key: the command id, then the subject      value: the first decision
    deferred  deferred_table.py says

LMDB keys end at 511 bytes. A longer key becomes 0xFF (no UTF-8 text begins so, nor does a tag) and a 256-bit
digest; its value then carries the whole key, which is compared, so that a collision is an error and never the
answer for another key.
"""

import re
from binascii import unhexlify
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from operator import attrgetter
from struct import Struct
from typing import Final
from uuid import UUID

from cqrs_cli.core.messages.reasons import REMEMBERED
from cqrs_cli.core.stored import DedupEntry, StoredState
from cqrs_cli.errors import ContradictionError
from cqrs_cli.state.store import Positions

CODEC: Final = 3  # 2: a UUID of digits alone is a UUID; 3: deferred commands
MAX_KEY: Final = 511

_UUID, _TEXT, _LONG = b"\x01", b"\x02", b"\xff"
_NO_BOUND = "\U0010ffff" * 1025
_STATUS_CODES = {status: code for code, status in enumerate(REMEMBERED)}
_INHERITED = 0x80  # with a status: the partition that has decided follows

_SAVED = Struct("<QQI")
_REMEMBERED = Struct("<qQQIBI")
_PARTITION = Struct("<I")
_LENGTH = Struct("<I")

#: A UUID in canonical lower case.
_UUID_TEXT = re.compile("[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")

_stored: Callable[..., StoredState] = StoredState
_OWN: frozenset[int | None] = frozenset({None})
_partition_of: Callable[[DedupEntry], int | None] = attrgetter("partition")
_POSITIONS = Struct("<5q")

# Used once or twice a command: bound once.
_pack_saved, _unpack_saved, _after_saved = _SAVED.pack, _SAVED.unpack_from, _SAVED.size
_pack_remembered, _unpack_remembered, _after_remembered = (
    _REMEMBERED.pack,
    _REMEMBERED.unpack_from,
    _REMEMBERED.size,
)


def encode_head(positions: Positions, token: str) -> bytes:
    """Positions and token as one value."""
    return _POSITIONS.pack(*positions) + token.encode()


def decode_head(head: bytes) -> tuple[Positions, str]:
    """The positions and the token in a value."""
    return Positions(*_POSITIONS.unpack_from(head)), head[_POSITIONS.size :].decode()


def aggregate_key(aggregate_id: str) -> bytes:
    """An aggregate's key, before shortening. The id must not be empty."""
    return aggregate_id.encode()


def dedup_key(subject: str, command_id: str) -> bytes:
    """A remembered decision's key, before shortening; different pairs have different keys.

    The id comes first, so that ids in order of time (UUIDv7) touch neighbouring pages. A canonical lower-case
    UUID is its 16 bytes: shorter keys, fewer pages. Of any other text the length stands at the end, where it
    cannot disturb the order, and tells where the id ends and the subject begins. The subject stands for
    itself: for one of ordinary length a hash is dearer to make, and could collide and pass for a duplicate.
    """
    if len(command_id) == 36 and _UUID_TEXT.fullmatch(command_id):
        return _UUID + unhexlify(command_id.replace("-", "")) + subject.encode()
    text = command_id.encode()
    return _TEXT + text + subject.encode() + len(text).to_bytes(4, "big")


def dedup_entries(remembered: Mapping[tuple[str, str], DedupEntry]) -> list[tuple[bytes, bytes]]:
    """Decisions as keys and values of LMDB. Where all ids are UUIDs, all keys are made at once: a third of the time."""
    ids = [command_id for _, command_id in remembered]
    if (raw := _uuids(ids)) is not None:
        keys = [
            _UUID + raw[16 * number : 16 * number + 16] + subject.encode()
            for number, (subject, _) in enumerate(remembered)
        ]
    else:
        keys = [dedup_key(subject, command_id) for subject, command_id in remembered]
    values = [
        _pack_remembered(
            one.timestamp, one.offset, one.version, one.events, _STATUS_CODES[one.status], one.fingerprint
        )
        for one in remembered.values()
    ]
    if not _OWN.issuperset(map(_partition_of, remembered.values())):
        values = [_with_partition(*one) for one in zip(values, remembered.values(), strict=True)]
    if max(map(len, keys), default=0) > MAX_KEY:
        return [_shortened(key, value) for key, value in zip(keys, values, strict=True)]
    return list(zip(keys, values, strict=True))


def _uuids(ids: Sequence[str]) -> bytes | None:
    """The 16 bytes of each id, one after the other; None unless all are UUIDs in canonical lower case."""
    text, dashes = "".join(ids), "-" * len(ids)
    if set(map(len, ids)) != {36} or text.lower() != text or text.count("-") != 4 * len(ids):
        return None
    if any(text[place::36] != dashes for place in (8, 13, 18, 23)):
        return None
    try:
        return unhexlify(text.replace("-", ""))
    except ValueError:  # not hexadecimal, or not ASCII
        return None


def greatest_id(keys: Sequence[bytes]) -> str:
    """A text that no command id of these entries is greater than, where `keys` are the greatest of their segments.

    UUIDs in text have the order of their keys, and the key of any other id is greater than the keys of all UUIDs. So
    if a segment holds only UUIDs, an id greater than its greatest UUID is not in it. If a segment holds another id,
    there is no such text: nothing is greater than the last code point, repeated beyond the length of an id.
    """
    if not all(key.startswith(_UUID) for key in keys):
        return _NO_BOUND
    return max((str(UUID(bytes=key[1:17])) for key in keys), default="")


def shorten(key: bytes) -> bytes:
    """The digest that stands for a key longer than `MAX_KEY`."""
    return _LONG + blake2b(key, digest_size=32).digest()


def state_entries(states: Mapping[str, StoredState]) -> list[tuple[bytes, bytes]]:
    """Aggregates as keys and values of LMDB."""
    entries = [
        (aggregate_id.encode(), _pack_saved(saved.version, saved.offset, saved.eventindex) + saved.state)
        for aggregate_id, saved in states.items()
    ]
    if max([len(key) for key, _ in entries], default=0) > MAX_KEY:
        return [_whole_state(key, value) for key, value in entries]
    return entries


def _whole_state(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """An entry whose value has the key, if that is too long to be one."""
    if len(key) <= MAX_KEY:
        return key, value
    head, state = value[:_after_saved], value[_after_saved:]
    return shorten(key), head + _LENGTH.pack(len(key)) + key + state


def encode_state(saved: StoredState) -> bytes:
    """An aggregate as the value of an ordinary key."""
    return _pack_saved(saved.version, saved.offset, saved.eventindex) + saved.state


def decode_state(value: bytes) -> StoredState:
    """The aggregate in the value of an ordinary key."""
    return _stored(*_unpack_saved(value), value[_after_saved:])


def decode_long_state(value: bytes) -> tuple[bytes, StoredState]:
    """The whole key, and the aggregate, in the value of a shortened key."""
    (length,) = _LENGTH.unpack_from(value, _after_saved)
    start = _after_saved + _LENGTH.size
    return value[start : start + length], _stored(*_unpack_saved(value), value[start + length :])


def is_long(key: bytes) -> bool:
    """True if an LMDB key is a shortened one."""
    return key.startswith(_LONG)


def _shortened(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    return (shorten(key), value + key) if len(key) > MAX_KEY else (key, value)


def _with_partition(value: bytes, decision: DedupEntry) -> bytes:
    """The value of a decision that may be another partition's."""
    if decision.partition is None:
        return value
    timestamp, offset, version, events, status, fingerprint = _unpack_remembered(value)
    marked = _pack_remembered(timestamp, offset, version, events, status | _INHERITED, fingerprint)
    return marked + _PARTITION.pack(decision.partition)


def decode_dedup(value: bytes) -> DedupEntry:
    """The decision in a value."""
    timestamp, offset, version, events, status, fingerprint = _unpack_remembered(value)
    partition = None
    if status & _INHERITED:
        (partition,), status = _PARTITION.unpack_from(value, _after_remembered), status ^ _INHERITED
    return DedupEntry(timestamp, offset, REMEMBERED[status], version, events, fingerprint, partition)


def decode_whole_dedup(value: bytes, whole: bytes) -> DedupEntry:
    """The decision in the value of a `whole` key, which may be a shortened one; raises `ContradictionError` if it
    belongs to another key.
    """
    decision = decode_dedup(value)
    if len(whole) > MAX_KEY:
        after = _after_remembered + (0 if decision.partition is None else _PARTITION.size)
        check_whole_key(value[after:], whole)
    return decision


def check_whole_key(found: bytes, key: bytes) -> None:
    """Refuse an entry under a shortened key that belongs to another one; raises `ContradictionError`."""
    if found != key:
        raise ContradictionError("two ids longer than 500 bytes share one digest", "use shorter ids")
