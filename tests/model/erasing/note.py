"""The aggregate of the model, a note with a personal text, and its messages sealed and opened by the real functions."""

from collections.abc import Iterator
from functools import cache
from hashlib import sha512

from msgspec.json import decode as decode_json

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.checks import fingerprint_of
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.marks import Personal
from cqrs_cli.core.personal.sealed_data import kids_in, open_data, seal_data
from cqrs_cli.core.personal.sealing import DataKey, SealPlace
from cqrs_cli.keys.topic import KnownKeys


class Write(cqrs.Command):
    text: Personal[str]


class Written(cqrs.Event):
    text: Personal[str]


class Note(cqrs.State):
    text: Personal[str] = ""


def decide(command: Write, note: Note) -> Iterator[Written]:
    yield Written(command.text)


def evolve(note: Note, event: Written) -> Note:
    return Note(event.text)


NOTE = Aggregate.of("note", cqrs.Decider(decide, evolve, Note()))
WRITE, WRITTEN = "note.Write", "note.Written"
_CLASSES: dict[str, type[cqrs.Command | cqrs.Event | cqrs.State]] = {
    "command": Write,
    "event": Written,
    "state": Note,
}
_fingerprint = fingerprint_of(NOTE)


@cache
def step(note: Note, kind: str, data: bytes) -> Note:
    """The next state; the data are opened."""
    after = NOTE.step(note, kind, data)
    assert isinstance(after, Note)
    return after


@cache
def state_of(data: bytes) -> Note:
    """An opened state."""
    return decode_json(data, type=Note)


@cache
def kid_ended(data: bytes) -> str:
    """The key that an `Erased` ends."""
    erased = NOTE.decode_event[ERASED](data)
    assert isinstance(erased, Erased)
    return erased.key


@cache
def text_of(data: bytes) -> str:
    """The text of an opened message, of any kind."""
    return state_of(data).text


@cache
def data_of(text: str) -> bytes:
    """The data of a command or event, or a state, in JSON."""
    return encode_json({"text": text})


@cache
def mark_of(text: str) -> int:
    """The fingerprint of a command."""
    return _fingerprint(WRITE, data_of(text), None)


@cache
def key_of(number: int) -> DataKey:
    """The key that a model draws at this place."""
    drawn = sha512(b"%d" % number).digest()
    return DataKey.of_random(drawn[:8] + drawn)


@cache
def _keys() -> dict[str, DataKey]:
    return {key.kid: key for key in map(key_of, range(20))}


@cache
def seal(what: str, text: str, kid: str | None) -> bytes:
    """A message with this text, sealed."""
    data = data_of(text)
    return data if kid is None else seal_data(_CLASSES[what], data, _keys()[kid], _place(what))


@cache
def open_sealed(what: str, data: bytes, kid: str | None) -> bytes:
    """A message for one who has this key alone: a placeholder where it is sealed with another."""
    keys = {} if kid is None else {kid: _keys()[kid]}
    return open_data(_CLASSES[what], data, keys.get, _place(what))


@cache
def open_with(data: bytes, kid: str) -> bytes:
    """An event for one who takes this key for the one that it names; raises `DamagedSealError`."""
    return open_data(Written, data, lambda named: DataKey(named, _keys()[kid].secret), _place("event"))


@cache
def kid_named(what: str, data: bytes) -> str | None:
    """The key that a message is sealed with."""
    return next(iter(kids_in(data)), None)


def kid_in(known: KnownKeys) -> str | None:
    """The key in force."""
    return None if known.current is None else known.current.kid


def _place(what: str) -> SealPlace:
    return SealPlace("note", "n-1", what, "")
