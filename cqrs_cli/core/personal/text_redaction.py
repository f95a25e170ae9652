"""Redacts texts that are written to public places: outcomes, dead letters and logs.

A text of an aggregate's code or of a sender may contain a personal value verbatim. Then the whole text is redacted. A
reworded value is not detected.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from msgspec import UNSET, Struct

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encrypted_data import personal_values
from cqrs_cli.core.personal.personal_fields import personal_fields

#: The minimal length of a value to search for, in characters: shorter values occur in any text.
MIN_LENGTH = 3

#: The replacement for a text that contains a personal value.
REDACTED_TEXT = "redacted: the message contains a personal value"

#: Replaces a text about data whose personal values cannot be determined.
UNSEARCHABLE_TEXT = (
    "redacted: the message may contain a personal value, since the data cannot be read, or have a "
    "member twice"
)

#: Types whose values have different texts in JSON and in Python.
_TYPES_WITH_TWO_TEXTS = (bytes, date, datetime, time, timedelta, Decimal, UUID)


def redact_text(values: Iterable[str], text: str, replacement: str = REDACTED_TEXT) -> str:
    """Return the text, or `replacement` if it contains one of the values, in upper or lower case."""
    text_to_search = text.casefold()
    return replacement if any(value.casefold() in text_to_search for value in values) else text


def redact_mismatch(message: str, cls: type[Struct], data: bytes) -> str:
    """Return the decoder's message about data that do not match their class, redacted if it may contain personal data.

    A decoder reports the first wrong member before it reads the following members. So its message may quote a value
    although the data are damaged after this member, or contain the member twice. The personal values of such data
    cannot be determined, so the message is redacted in any case.
    """
    if not personal_fields(cls):
        return message
    try:
        json.loads(data, object_pairs_hook=_require_unique_names)
    except (ValueError, RecursionError):
        return UNSEARCHABLE_TEXT
    return redact_text(personal_texts_in(cls, data), message)


def personal_texts(*messages: Struct) -> set[str]:
    """Return the personal values of messages as texts, without redacted values."""
    texts = set[str]()
    for message in messages:
        for field in personal_fields(type(message)):
            value = getattr(message, field.name)
            if value is not UNSET and value != field.redacted_value():
                texts |= _texts(msgspec.to_builtins(value, builtin_types=_TYPES_WITH_TWO_TEXTS))
    return texts


def personal_texts_in(cls: type[Struct], data: bytes) -> set[str]:
    """Return the personal values in the JSON of a message as texts. The data need not match the class."""
    try:
        values = personal_values(cls, data).values()
        return set[str]().union(*(_texts(msgspec.json.decode(value)) for value in values))
    except (ValueError, RecursionError):
        # msgspec cannot read the data. So the decoder, which is msgspec, too, has read no value that it could quote.
        return set()


def _require_unique_names(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(names) > len(set(names)):
        raise ValueError("a member occurs twice")


def _texts(value: Any) -> set[str]:
    texts = (text.strip() for leaf in _leaves(value) for text in _texts_of_leaf(leaf))
    return {text for text in texts if len(text) >= MIN_LENGTH}


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the values in lists and dicts at any depth, and the keys of dicts."""
    pending = [value]
    while pending:
        match pending.pop():
            case dict() as container:
                pending += [*container.keys(), *container.values()]
            case list() | tuple() | set() | frozenset() as container:
                pending += container
            case None | bool():
                pass
            case leaf:
                yield leaf


def _texts_of_leaf(leaf: Any) -> Iterator[str]:
    yield str(leaf)
    if isinstance(leaf, _TYPES_WITH_TWO_TEXTS):
        yield encode_json(leaf).decode().strip('"')
