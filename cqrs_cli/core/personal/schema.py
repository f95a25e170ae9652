"""The personal fields of an aggregate, and the redaction of its messages. `Aggregate.personal` holds the schema."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from msgspec import Struct

from cqrs_cli.core.personal.encrypted_data import may_look_encrypted
from cqrs_cli.core.personal.message_redaction import nullify_data, redact_data, redact_message
from cqrs_cli.core.personal.personal_fields import PersonalField, personal_fields
from cqrs_cli.core.personal.text_redaction import personal_texts, redact_mismatch, redact_text

_Message = TypeVar("_Message", bound=Struct)


class PersonalSchema:
    """The personal fields of an aggregate's commands, events and state. False if no class has a personal field."""

    def __init__(self, classes: Iterable[type[Struct]]) -> None:
        """Raises `AnnotationError` for an invalid annotation."""
        self._fields = {cls: fields for cls in classes if (fields := personal_fields(cls))}

    def __bool__(self) -> bool:
        return bool(self._fields)

    def fields_of(self, cls: type[Struct]) -> tuple[PersonalField, ...]:
        """Return the personal fields of a message."""
        return self._fields.get(cls, ())

    def redact(self, message: _Message) -> _Message:
        """Return the message with redacted personal fields; the message itself if its class has none."""
        return redact_message(message)

    def redact_data(self, cls: type[Struct], data: bytes) -> bytes:
        """Return the JSON of a message with redacted personal fields. In `data` they may be encrypted or plain.

        Raises `ValueError` if `data` are not a JSON object.
        """
        return redact_data(cls, data) if cls in self._fields else data

    def nullify_data(self, cls: type[Struct], data: bytes) -> bytes:
        """Return the JSON of a message with null in all personal fields."""
        return nullify_data(cls, data) if cls in self._fields else data

    def may_look_encrypted(self, data: bytes) -> bool:
        """False if no member in the JSON of a message has the shape of an encrypted value: a cheap test."""
        return may_look_encrypted(data)

    def text_redactor(self, *messages: Struct) -> "Callable[..., str]":
        """Return a function that redacts a text which contains a personal value of these messages."""
        return partial(redact_text, personal_texts(*messages))

    def redact_mismatch(self, message: str, cls: type[Struct], data: bytes) -> str:
        """Return a decoder's message about data that do not match their class, redacted if it may be personal."""
        return redact_mismatch(message, cls, data) if cls in self._fields else message
