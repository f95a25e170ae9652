"""The masks of commands, events and states: the same messages with placeholders in their personal fields.

So they are read when their key is gone, and by readers without a ring of keys.
"""

from typing import TypeVar

from msgspec import Raw, Struct
from msgspec.structs import replace

from cqrs_cli.core.messages.json import read_members, write_members
from cqrs_cli.core.personal.marks import personal_fields

_Message = TypeVar("_Message", bound=Struct)


def mask(message: _Message) -> _Message:
    """The message with a placeholder in each personal field; itself if its class has none."""
    fields = personal_fields(type(message))
    return replace(message, **{one.name: one.placeholder() for one in fields}) if fields else message


def mask_data(cls: type[Struct], data: bytes) -> bytes:
    """The same for the JSON of a message, whether its personal fields are sealed or plain.

    Canonical bytes give the canonical bytes of the mask. Raises `ValueError` for data that are no object.
    """
    fields = personal_fields(cls)
    if not fields:
        return data
    return write_members(read_members(data) | {one.wire: Raw(one.erased) for one in fields})
