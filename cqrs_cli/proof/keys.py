"""The rules for the keys of personal fields: what events say of them, command after command, and what the topic has.

Of an aggregate's events those with sealed members name one key, until an `Erased` ends it. A key that was ended seals
nothing any more, and is gone from the keys topic; one that is in force is there.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

import msgspec
from msgspec import Raw, Struct

from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.aggregate.erased import ERASED, read_erased
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.personal.sealed_data import SEAL_MARK, kids_in, personal_values, sealed_members
from cqrs_cli.core.personal.sealing import (
    KID_BYTES,
    DataKey,
    SealError,
    SealPlace,
    from_text,
    is_sealed,
    kid_of,
)
from cqrs_cli.core.stored import StoredState
from cqrs_cli.keys.topic import WrappedKey

#: Keys of aggregates that are kept unwrapped, to open the next events of the same ones.
_UNWRAPPED = 10_000


class KeyTrace(Struct, frozen=True, array_like=True, gc=False):
    """The words of an aggregate's events about its keys, up to the one at offset `at`."""

    kid: str | None = None  # of the key in force; None: there is none, or none that an event has needed
    ended: tuple[str, ...] = ()  # the keys that an `Erased` has ended
    at: int = 0
    erased: int = 0  # the version after the last `Erased`


_encode: Callable[[KeyTrace], bytes] = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], KeyTrace] = msgspec.msgpack.Decoder(KeyTrace).decode


def read_trace(kept: bytes) -> KeyTrace:
    """The trace that was kept as these bytes."""
    return _decode(kept) if kept else KeyTrace()


def trace_bytes(trace: KeyTrace) -> bytes:
    """The bytes to keep."""
    return _encode(trace)


class _Document(Struct):
    data: Raw = Raw(b"{}")


_document = msgspec.json.Decoder(_Document).decode


def kids_of_document(document: bytes) -> set[str]:
    """The same for the document of a command; none for what is none."""
    if SEAL_MARK not in document:
        return set()
    try:
        return kids_in(bytes(_document(document).data))
    except (ValueError, RecursionError):
        return set()


class EventKey(NamedTuple):
    """The key of an event: the one that seals its members, or that it ends."""

    kid: str
    ends: bool = False


def key_of_event(event: EventEnvelope) -> EventKey | None:
    """The key that an event names, if it names one; raises `ValueError` for two, and for what names none."""
    if event.type == ERASED:
        kid = read_erased(event.data).key
        if len(from_text(kid)) != KID_BYTES:
            raise ValueError(f"{kid!r:.50} is the id of no key")
        return EventKey(kid, ends=True)
    kids = kids_in(bytes(event.data))
    if len(kids) > 1:
        raise ValueError(f"it is sealed with the keys {' and '.join(sorted(kids))}")
    return EventKey(kids.pop()) if kids else None


class KeyRing:
    """The keys in force, to open what they seal. `latest`: a subject's key in the topic; `unwrap`: with the ring."""

    def __init__(
        self,
        aggregate: str,
        latest: Callable[[str], WrappedKey | None],
        unwrap: Callable[[str, WrappedKey], DataKey],
    ) -> None:
        self._aggregate, self._latest = aggregate, latest
        self._unwrap = lru_cache(_UNWRAPPED)(unwrap)

    def faults(self, subject: str, place: str, data: bytes) -> Iterator[str]:
        """Yield each member that names the key in force and does not open with it; no text has a value.

        Raises `ContradictionError` for a key that the ring does not open.
        """
        members = sealed_members(data)
        wrapped = self._latest(subject) if members else None
        for name, value in members.items() if wrapped is not None else ():
            try:
                if wrapped is not None and kid_of(value) == wrapped.kid:
                    self._unwrap(subject, wrapped).open(
                        value, SealPlace(self._aggregate, subject, place, name)
                    )
            except SealError as error:
                yield f"has a damaged value in {name!r}: {error}"


def state_faults(trace: KeyTrace, cls: type[State], saved: StoredState) -> Iterator[str]:
    """Yield what is wrong with the personal fields of a state in a shard; no text has a value.

    A shard that is behind may have seals of a key that has ended since.
    """
    for name, value in personal_values(cls, saved.state).items():
        if not is_sealed(value):
            yield f"has a plain value in the personal field {name!r}"
            continue
        try:
            kid = kid_of(value)
        except SealError as error:
            yield f"has no sealed value in {name!r}: {error}"
            continue
        if kid in trace.ended and saved.version >= trace.erased:
            yield f"has {name!r} sealed with key {kid}, which had ended"
        elif trace.kid is not None and kid not in (trace.kid, *trace.ended):
            yield f"has {name!r} sealed with key {kid}, which no event names"


def judge_key(subject: str, trace: KeyTrace, found: WrappedKey | None) -> str | None:
    """The fault of an aggregate's key in the topic, None if it has none."""
    if found is not None and found.kid in trace.ended:
        return f"is behind the end of key {found.kid} of {subject!r}, which is in the keys topic again"
    wanted = trace.kid
    if wanted is None or (found is not None and found.kid == wanted):
        return None
    there = "no key" if found is None else f"key {found.kid}"
    return (
        f"names key {wanted} of {subject!r}, and the keys topic has {there}: the key is lost, and nobody erased it;"
        " nothing heals that"
    )
