"""Encodes and decodes the keys and values of a shard. Raise `CODEC` with any change, so that every shard is rebuilt.

    states    key: the aggregate id, UTF-8               value: version, offset, index, then the state's JSON
    ids       key: the command id, then the subject      value: the first decision
    deferred  see deferred_table.py

An LMDB key has at most 511 bytes. A longer key is replaced by 0xFF and a 256-bit digest; no UTF-8 text and no tag
begins with 0xFF. Its value contains the whole key, which readers compare. So a collision is an error, never a wrong
result.
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
from cqrs_cli.core.stored import NO_BOUND, DedupEntry, StoredState
from cqrs_cli.errors import ContradictionError
from cqrs_cli.state.evidence import Evidence
from cqrs_cli.state.store import Positions

#: The version of the encoding. 2 encodes UUIDs without letters as UUIDs, too; 3 added deferred commands; 4 added hashes
#: of the last records.
CODEC: Final = 4
MAX_KEY: Final = 511

_UUID, _TEXT, _LONG = b"\x01", b"\x02", b"\xff"
_STATUS_CODES = {status: code for code, status in enumerate(REMEMBERED)}
_INHERITED = 0x80  # a flag in the status: the value ends with the partition that made the decision

_STATE_HEAD = Struct("<QQI")  # version, offset, index of the last event
_DEDUP_ENTRY = Struct("<qQQIBI")  # timestamp, offset, version, events, status, fingerprint
_PARTITION = Struct("<I")
_LENGTH = Struct("<I")

#: A UUID in canonical lower case.
_UUID_TEXT = re.compile("[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")

_make_state: Callable[..., StoredState] = StoredState
_NO_PARTITION: frozenset[int | None] = frozenset({None})
_partition_of: Callable[[DedupEntry], int | None] = attrgetter("partition")
_POSITIONS = Struct("<5q q32s q32s")  # then offset and SHA-256 of the last event, and of the last outcome

# These methods are bound once, because they are called once or twice for each command.
_pack_state_head, _unpack_state_head, _state_head_size = (
    _STATE_HEAD.pack,
    _STATE_HEAD.unpack_from,
    _STATE_HEAD.size,
)
_pack_dedup, _unpack_dedup, _dedup_size = (
    _DEDUP_ENTRY.pack,
    _DEDUP_ENTRY.unpack_from,
    _DEDUP_ENTRY.size,
)


def encode_head(positions: Positions, token: str) -> bytes:
    """Return positions and token as one value, the head of a shard."""
    *offsets, event, outcome = positions
    return _POSITIONS.pack(*offsets, *_evidence_fields(event), *_evidence_fields(outcome)) + token.encode()


def decode_head(head: bytes) -> tuple[Positions, str]:
    """Return the positions and the token in the head of a shard."""
    *offsets, event, event_hash, outcome, outcome_hash = _POSITIONS.unpack_from(head)
    positions = Positions(*offsets)._replace(
        last_event=_evidence(event, event_hash), last_outcome=_evidence(outcome, outcome_hash)
    )
    return positions, head[_POSITIONS.size :].decode()


def _evidence_fields(evidence: Evidence | None) -> tuple[int, bytes]:
    return (-1, b"") if evidence is None else (evidence.offset, bytes.fromhex(evidence.digest))


def _evidence(offset: int, digest: bytes) -> Evidence | None:
    return None if offset < 0 else Evidence(offset, digest.hex())


def aggregate_key(aggregate_id: str) -> bytes:
    """Return an aggregate's key before shortening. The id must not be empty."""
    return aggregate_id.encode()


def dedup_key(subject: str, command_id: str) -> bytes:
    """Return the key of a remembered decision before shortening; different pairs have different keys.

    The id comes first, so that ids in order of time (UUIDv7) are on neighbouring pages. A canonical lower-case UUID is
    encoded as 16 bytes: shorter keys, fewer pages. After any other id, the key ends with the id's length, which
    separates the id from the subject. At the end, the length does not affect the order. The subject is not hashed: for
    ordinary lengths a hash costs more, and a collision of hashes would make a new command a duplicate.
    """
    if len(command_id) == 36 and _UUID_TEXT.fullmatch(command_id):
        return _UUID + unhexlify(command_id.replace("-", "")) + subject.encode()
    text = command_id.encode()
    return _TEXT + text + subject.encode() + len(text).to_bytes(4, "big")


def encode_dedup_entries(entries: Mapping[tuple[str, str], DedupEntry]) -> list[tuple[bytes, bytes]]:
    """Return dedup entries as LMDB keys and values.

    If all ids are UUIDs, they are encoded together, in a third of the time.
    """
    ids = [command_id for _, command_id in entries]
    if (uuid_bytes := _uuids(ids)) is not None:
        keys = [
            _UUID + uuid_bytes[16 * number : 16 * number + 16] + subject.encode()
            for number, (subject, _) in enumerate(entries)
        ]
    else:
        keys = [dedup_key(subject, command_id) for subject, command_id in entries]
    values = [
        _pack_dedup(
            entry.timestamp,
            entry.offset,
            entry.version,
            entry.events,
            _STATUS_CODES[entry.status],
            entry.fingerprint,
        )
        for entry in entries.values()
    ]
    # If another partition made at least one of the decisions, the values contain its number.
    if not _NO_PARTITION.issuperset(map(_partition_of, entries.values())):
        values = [
            _with_partition(value, entry) for value, entry in zip(values, entries.values(), strict=True)
        ]
    if max(map(len, keys), default=0) > MAX_KEY:
        return [_shortened(key, value) for key, value in zip(keys, values, strict=True)]
    return list(zip(keys, values, strict=True))


def _uuids(ids: Sequence[str]) -> bytes | None:
    """Return the 16 bytes of each id, concatenated; None unless all ids are canonical lower-case UUIDs."""
    text, dashes = "".join(ids), "-" * len(ids)
    if set(map(len, ids)) != {36} or text.lower() != text or text.count("-") != 4 * len(ids):
        return None
    if any(text[position::36] != dashes for position in (8, 13, 18, 23)):
        return None
    try:
        return unhexlify(text.replace("-", ""))
    except ValueError:  # not hexadecimal, or not ASCII
        return None


def greatest_id(keys: Sequence[bytes]) -> str:
    """Return an upper bound of the remembered command ids; `keys` are the greatest keys of the segments: the
    table of ids has one segment for each time span as long as the dedup window.

    UUIDs have the same order as text and as keys, and any other id has a greater key than all UUIDs. So if the greatest
    key of a segment is a UUID, no id of the segment is greater than this UUID. If it is not a UUID, there is no useful
    bound; the result is then a text that is greater than every possible id.
    """
    if not all(key.startswith(_UUID) for key in keys):
        return NO_BOUND
    return max((str(UUID(bytes=key[1:17])) for key in keys), default="")


def shorten(key: bytes) -> bytes:
    """Return the digest that replaces a key longer than `MAX_KEY`."""
    return _LONG + blake2b(key, digest_size=32).digest()


def encode_states(states: Mapping[str, StoredState]) -> list[tuple[bytes, bytes]]:
    """Return states as LMDB keys and values."""
    entries = [
        (
            aggregate_id.encode(),
            _pack_state_head(stored.version, stored.offset, stored.eventindex) + stored.state,
        )
        for aggregate_id, stored in states.items()
    ]
    if max([len(key) for key, _ in entries], default=0) > MAX_KEY:
        return [_shortened_state(key, value) for key, value in entries]
    return entries


def _shortened_state(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    """Return the entry; if its key is too long, the key is shortened and the value contains the whole key."""
    if len(key) <= MAX_KEY:
        return key, value
    head, state = value[:_state_head_size], value[_state_head_size:]
    return shorten(key), head + _LENGTH.pack(len(key)) + key + state


def encode_state(stored: StoredState) -> bytes:
    """Return an aggregate as the value of a key that is not shortened."""
    return _pack_state_head(stored.version, stored.offset, stored.eventindex) + stored.state


def decode_state(value: bytes) -> StoredState:
    """Return the aggregate in the value of a key that is not shortened."""
    return _make_state(*_unpack_state_head(value), value[_state_head_size:])


def decode_long_state(value: bytes) -> tuple[bytes, StoredState]:
    """Return the whole key and the aggregate in the value of a shortened key."""
    (length,) = _LENGTH.unpack_from(value, _state_head_size)
    start = _state_head_size + _LENGTH.size
    return value[start : start + length], _make_state(*_unpack_state_head(value), value[start + length :])


def is_long(key: bytes) -> bool:
    """True if an LMDB key is shortened."""
    return key.startswith(_LONG)


def _shortened(key: bytes, value: bytes) -> tuple[bytes, bytes]:
    return (shorten(key), value + key) if len(key) > MAX_KEY else (key, value)


def _with_partition(value: bytes, decision: DedupEntry) -> bytes:
    """Return the value; if another partition made the decision, its number is appended."""
    if decision.partition is None:
        return value
    timestamp, offset, version, events, status, fingerprint = _unpack_dedup(value)
    dedup_entry = _pack_dedup(timestamp, offset, version, events, status | _INHERITED, fingerprint)
    return dedup_entry + _PARTITION.pack(decision.partition)


def decode_dedup(value: bytes) -> DedupEntry:
    """Return the decision in a value."""
    timestamp, offset, version, events, status, fingerprint = _unpack_dedup(value)
    partition = None
    if status & _INHERITED:
        (partition,), status = _PARTITION.unpack_from(value, _dedup_size), status ^ _INHERITED
    return DedupEntry(timestamp, offset, REMEMBERED[status], version, events, fingerprint, partition)


def decode_whole_dedup(value: bytes, whole_key: bytes) -> DedupEntry:
    """Return the decision in a value; `whole_key` is the key before shortening.

    Raises `ContradictionError` if the value belongs to another key with the same digest.
    """
    decision = decode_dedup(value)
    if len(whole_key) > MAX_KEY:
        key_start = _dedup_size + (0 if decision.partition is None else _PARTITION.size)
        check_whole_key(value[key_start:], whole_key)
    return decision


def check_whole_key(stored_key: bytes, key: bytes) -> None:
    """Raise `ContradictionError` if the entry of a shortened key belongs to another key, `stored_key`."""
    if stored_key != key:
        raise ContradictionError("two ids longer than 500 bytes share one digest", "use shorter ids")
