"""Redaction: replaces the personal fields of commands, events and states by redacted values.

Readers see redacted messages after an erasure, and without a keyring.
"""

from typing import TypeVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from cqrs_cli.core.messages.json import read_members, write_members
from cqrs_cli.core.personal.personal_fields import personal_fields

_Message = TypeVar("_Message", bound=Struct)


def redact_message(message: _Message) -> _Message:
    """Return the message with redacted personal fields; the message itself if its class has none."""
    fields = personal_fields(type(message))
    return replace(message, **{field.name: field.redacted_value() for field in fields}) if fields else message


def redact_data(cls: type[Struct], data: bytes) -> bytes:
    """Return the JSON of a message with redacted personal fields. In `data` they may be encrypted or plain.

    If `data` are canonical bytes, the result is canonical, too. Raises `ValueError` if `data` are not a JSON object.
    """
    return _replace_fields(
        data, {field.wire_name: Raw(field.redacted_json) for field in personal_fields(cls)}
    )


def nullify_data(cls: type[Struct], data: bytes) -> bytes:
    """Return the JSON of a message with null in all personal fields. Unlike null, a redacted value may be a real value.

    Raises `ValueError` if `data` are not a JSON object.
    """
    return _replace_fields(data, {field.wire_name: Raw(b"null") for field in personal_fields(cls)})


def _replace_fields(data: bytes, values: dict[str, Raw]) -> bytes:
    return write_members(read_members(data) | values) if values else data
