"""The aggregate of the model, a note with a personal text. The real functions encrypt and decrypt its messages."""

from collections.abc import Iterator
from functools import cache
from hashlib import sha512

from msgspec.json import decode as decode_json

import cqrs_cli as cqrs
from cqrs_cli.codec.ciphertext import kids_of_data
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.checks import fingerprint_function
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encrypted_data import decrypt_data, encrypt_data
from cqrs_cli.core.personal.encryption import DataKey, ValueLocation
from cqrs_cli.core.personal.personal_fields import Personal
from cqrs_cli.keys.topic import SubjectKeys


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
_fingerprint = fingerprint_function(NOTE)


@cache
def fold(note: Note, event_type: str, data: bytes) -> Note:
    """Return the next state. The data are decrypted."""
    after = NOTE.step(note, event_type, data)
    assert isinstance(after, Note)
    return after


@cache
def state_of(data: bytes) -> Note:
    """Return a decrypted state."""
    return decode_json(data, type=Note)


@cache
def erased_kid(data: bytes) -> str:
    """Return the id of the key that an `Erased` event names."""
    erased = NOTE.decode_event[ERASED](data)
    assert isinstance(erased, Erased)
    return erased.key


@cache
def text_of(data: bytes) -> str:
    """Return the text of a decrypted message of any type."""
    return state_of(data).text


@cache
def data_of(text: str) -> bytes:
    """Return the JSON data of a command, event or state."""
    return encode_json({"text": text})


@cache
def fingerprint_of(text: str) -> int:
    """Return the fingerprint of a command."""
    return _fingerprint(WRITE, data_of(text), None)


@cache
def key_of(number: int) -> DataKey:
    """Return the data key with this number."""
    random_bytes = sha512(b"%d" % number).digest()
    return DataKey.of_random(random_bytes[:8] + random_bytes)


@cache
def _keys() -> dict[str, DataKey]:
    return {key.kid: key for key in map(key_of, range(20))}


@cache
def encrypt_text(message_type: str, text: str, kid: str | None) -> bytes:
    """Return an encrypted message with this text."""
    data = data_of(text)
    return (
        data
        if kid is None
        else encrypt_data(_CLASSES[message_type], data, _keys()[kid], _location(message_type))
    )


@cache
def decrypt_message(message_type: str, data: bytes, kid: str | None) -> bytes:
    """Return a message as a reader with only this key sees it. Values under another key are redacted."""
    keys = {} if kid is None else {kid: _keys()[kid]}
    return decrypt_data(_CLASSES[message_type], data, keys.get, _location(message_type))


@cache
def decrypt_with_wrong_key(data: bytes, kid: str) -> bytes:
    """Return an event for a reader that mistakes this key for the event's key. Raises `DamagedValueError`."""
    return decrypt_data(
        Written, data, lambda value_kid: DataKey(value_kid, _keys()[kid].secret), _location("event")
    )


@cache
def message_kid(message_type: str, data: bytes) -> str | None:
    """Return the id of the key with which a message is encrypted; None for plain text."""
    return next(iter(kids_of_data(data)), None)


def active_kid(subject_keys: SubjectKeys) -> str | None:
    """Return the id of the active key; None if there is none."""
    return None if subject_keys.current is None else subject_keys.current.kid


def _location(message_type: str) -> ValueLocation:
    return ValueLocation("note", "n-1", message_type, "")
