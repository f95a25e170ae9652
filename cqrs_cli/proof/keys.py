"""The rules for the data keys of personal fields, in events, in shards and in the keys topic.

All encrypted events of an aggregate use one key, until an `Erased` event deletes this key. A deleted key encrypts no
later event, and is not in the keys topic. An active key is in the keys topic.
"""

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

from cqrs_cli.codec.ciphertext import personal_kids
from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.stored import StoredState


class KeyEntry(Struct, frozen=True, array_like=True, gc=False):
    """The key entry of an aggregate: the ids of the data keys in its events, up to the event at `offset`."""

    kid: str | None = None  # id of the active key; None: no event has used a key since the last `Erased`
    erased_kids: tuple[str, ...] = ()  # ids of the keys that an `Erased` has deleted
    offset: int = 0
    erased_version: int = 0  # the version after the last `Erased`


_encode: Callable[[KeyEntry], bytes] = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], KeyEntry] = msgspec.msgpack.Decoder(KeyEntry).decode


def read_key_entry(data: bytes) -> KeyEntry:
    """Decode a key entry; empty bytes are an empty entry."""
    return _decode(data) if data else KeyEntry()


def encode_key_entry(key_entry: KeyEntry) -> bytes:
    """Encode a key entry."""
    return _encode(key_entry)


def find_state_problems(key_entry: KeyEntry, cls: type[State], stored_state: StoredState) -> Iterator[str]:
    """Yield the violations in the personal fields of a state in a shard. The messages never contain personal data.

    A shard that lags may have values encrypted with a key that was deleted later.
    """
    for name, kid, problem in personal_kids(cls, stored_state.state):
        if kid is None:
            yield f"has {problem}"
        elif kid in key_entry.erased_kids and stored_state.version >= key_entry.erased_version:
            yield f"has {name!r} encrypted with key {kid}, which was deleted"
        elif key_entry.kid is not None and kid not in (key_entry.kid, *key_entry.erased_kids):
            yield f"has {name!r} encrypted with key {kid}, which no event names"


def key_topic_problem(subject: str, key_entry: KeyEntry, topic_kid: str | None) -> str | None:
    """Return the violation if the keys topic contradicts the events, or None. `topic_kid`: the id of the key in the
    topic.
    """
    if topic_kid is not None and topic_kid in key_entry.erased_kids:
        return f"is after the deletion of key {topic_kid} of {subject!r}, which is in the keys topic again"
    active_kid = key_entry.kid
    if active_kid in (None, topic_kid):
        return None
    topic_key_text = "no key" if topic_kid is None else f"key {topic_kid}"
    return (
        f"names key {active_kid} of {subject!r}, but the keys topic has {topic_key_text}: the key is lost, and "
        "it was not erased; no command can restore it"
    )
