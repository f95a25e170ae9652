"""Redaction: replaces the personal fields of commands, events and states by redacted values.

Readers see redacted messages after an erasure, and without a keyring.
"""

from typing import TypeVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from cqrs_cli.core.messages.json import read_members, write_members
from cqrs_cli.core.personal.personal_fields import personal_fields

_Message = TypeVar("_Message", bound=Struct)


def mask(message: _Message) -> _Message:
    """Return the message with redacted personal fields; the message itself if its class has none."""
    fields = personal_fields(type(message))
    return replace(message, **{field.name: field.redacted_value() for field in fields}) if fields else message


def mask_data(cls: type[Struct], data: bytes) -> bytes:
    """Return the JSON of a message with redacted personal fields. In `data` they may be encrypted or plain.

    If `data` are canonical bytes, the result is canonical, too. Raises `ValueError` if `data` are not a JSON object.
    """
    fields = personal_fields(cls)
    if not fields:
        return data
    return write_members(read_members(data) | {field.wire: Raw(field.redacted_json) for field in fields})
