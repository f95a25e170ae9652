"""The rules for the data keys of personal fields, in events, in shards and in the keys topic.

All events of an aggregate with encrypted members use one key, until an `Erased` event deletes it. A deleted key
encrypts no later event, and is not in the keys topic. An active key is in the keys topic.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.aggregate.erased import ERASED, read_erased
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.personal.encrypted_data import (
    ENCRYPTED_MARKER,
    encrypted_members,
    kids_in,
    personal_values,
)
from cqrs_cli.core.personal.encryption import (
    KID_BYTES,
    DataKey,
    DecryptionError,
    ValueLocation,
    from_base64url,
    is_encrypted,
    kid_of,
)
from cqrs_cli.core.stored import StoredState
from cqrs_cli.errors import ContradictionError
from cqrs_cli.keys.topic import WrappedKey

#: The number of decrypted data keys in the cache. An aggregate's next event needs its key again.
_CACHED_KEYS = 10_000


class KeyTrace(Struct, frozen=True, array_like=True, gc=False):
    """The key entry of an aggregate: its data keys by its events, up to the event at offset `offset`."""

    kid: str | None = None  # id of the active key; None: no event has used a key since the last `Erased`
    erased_kids: tuple[str, ...] = ()  # ids of the keys that an `Erased` has deleted
    offset: int = 0
    erased_version: int = 0  # the version after the last `Erased`


_encode: Callable[[KeyTrace], bytes] = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], KeyTrace] = msgspec.msgpack.Decoder(KeyTrace).decode


def read_key_entry(data: bytes) -> KeyTrace:
    """Decode a key entry; empty bytes are an empty entry."""
    return _decode(data) if data else KeyTrace()


def encode_key_entry(trace: KeyTrace) -> bytes:
    """Encode a key entry."""
    return _encode(trace)


class _Document(Struct):
    data: Raw = Raw(b"{}")


_document = msgspec.json.Decoder(_Document).decode


def kids_of_document(document: bytes) -> set[str]:
    """Return the key ids in a command document; an empty set if it is not valid JSON."""
    if ENCRYPTED_MARKER not in document:
        return set()
    try:
        return kids_in(bytes(_document(document).data))
    except (ValueError, RecursionError):
        return set()


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
    kids = kids_in(bytes(event.data))
    if len(kids) > 1:
        raise ValueError(f"it is encrypted with the keys {' and '.join(sorted(kids))}")
    return EventKey(kids.pop()) if kids else None


class ActiveKeys:
    """The active data keys, with which encrypted values are checked. `find_key`: returns a subject's key in the keys
    topic; `decrypt_key`: decrypts the key with the keyring.
    """

    def __init__(
        self,
        aggregate: str,
        find_key: Callable[[str], WrappedKey | None],
        decrypt_key: Callable[[str, WrappedKey], DataKey],
    ) -> None:
        self._aggregate, self._find_key, self._decrypt = aggregate, find_key, decrypt_key
        self._data_key_or_problem = lru_cache(_CACHED_KEYS)(self._decrypt_key)

    def find_problem(self, subject: str, wrapped: WrappedKey) -> str | None:
        """Return why the keyring cannot decrypt a data key; None if it can."""
        key_or_problem = self._data_key_or_problem(subject, wrapped)
        return key_or_problem if isinstance(key_or_problem, str) else None

    def _decrypt_key(self, subject: str, wrapped: WrappedKey) -> DataKey | str:
        try:
            return self._decrypt(subject, wrapped)
        except ContradictionError as error:
            return error.message

    def find_damaged(self, subject: str, location: str, data: bytes) -> Iterator[str]:
        """Yield a problem for each member that uses the active key, but cannot be decrypted with it. `location` is the
        location of the message, such as an event's id.

        The messages never contain personal data. A key that the keyring cannot decrypt is a violation of its own.
        """
        members = encrypted_members(data)
        wrapped = self._find_key(subject) if members else None
        for name, value in members.items() if wrapped is not None else ():
            try:
                if wrapped is None or kid_of(value) != wrapped.kid:
                    continue
                data_key = self._data_key_or_problem(subject, wrapped)
                if isinstance(data_key, DataKey):
                    data_key.decrypt(value, ValueLocation(self._aggregate, subject, location, name))
            except DecryptionError as error:
                yield f"has a damaged value in {name!r}: {error}"


def find_state_problems(trace: KeyTrace, cls: type[State], stored: StoredState) -> Iterator[str]:
    """Yield the violations in the personal fields of a state in a shard. The messages never contain personal data.

    A shard that lags may have values encrypted with a key that was deleted later.
    """
    for name, value in personal_values(cls, stored.state).items():
        if not is_encrypted(value):
            yield f"has a plain value in the personal field {name!r}"
            continue
        try:
            kid = kid_of(value)
        except DecryptionError as error:
            yield f"has no encrypted value in {name!r}: {error}"
            continue
        if kid in trace.erased_kids and stored.version >= trace.erased_version:
            yield f"has {name!r} encrypted with key {kid}, which had ended"
        elif trace.kid is not None and kid not in (trace.kid, *trace.erased_kids):
            yield f"has {name!r} encrypted with key {kid}, which no event names"


def key_topic_problem(subject: str, trace: KeyTrace, topic_key: WrappedKey | None) -> str | None:
    """Return the violation of an aggregate's key in the keys topic; None if it is correct."""
    if topic_key is not None and topic_key.kid in trace.erased_kids:
        return f"is behind the end of key {topic_key.kid} of {subject!r}, which is in the keys topic again"
    active_kid = trace.kid
    if active_kid is None or (topic_key is not None and topic_key.kid == active_kid):
        return None
    topic_key_text = "no key" if topic_key is None else f"key {topic_key.kid}"
    return (
        f"names key {active_kid} of {subject!r}, and the keys topic has {topic_key_text}: the key is lost, and "
        "it was not erased; no command can restore it"
    )
