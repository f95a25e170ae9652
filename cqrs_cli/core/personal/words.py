"""Words about an aggregate that are written where everybody reads them: outcomes, dead letters, logs.

What an author or a sender has put into words may hold a personal value as it is. Then all the words are withheld. A
value that was reworded is not found.
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
from cqrs_cli.core.personal.marks import personal_fields
from cqrs_cli.core.personal.sealed_data import personal_values

#: The characters of the shortest value that is looked for: shorter ones stand in any text.
SHORTEST = 3

#: Stands for words with a personal value.
WITHHELD = "withheld: a personal value stands in the message"

#: Stands for words about data in which nobody can tell the personal values.
UNSEARCHED = (
    "withheld: the data cannot be read, or have a member twice, and a personal value may stand in the message"
)

#: Values that are text in JSON, and have another text in Python.
_TWO_TEXTS = (bytes, date, datetime, time, timedelta, Decimal, UUID)


def withhold(said: str, values: Iterable[str], instead: str = WITHHELD) -> str:
    """The words, or `instead` if one of these values stands in them, in capitals or not."""
    folded = said.casefold()
    return instead if any(value.casefold() in folded for value in values) else said


def withhold_misfit(said: str, cls: type[Struct], data: bytes) -> str:
    """The words about the JSON of a message that does not fit its class, or others for them.

    A decoder complains about the first member that does not fit, before it reads the rest. So the words may hold a
    value of data that are damaged further on, or that have the member a second time.
    """
    if not personal_fields(cls):
        return said
    try:
        json.loads(data, object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        return UNSEARCHED
    return withhold(said, texts_in(cls, data))


def texts_of(*messages: Struct) -> set[str]:
    """The personal values of messages as texts. Placeholders say nothing."""
    found = set[str]()
    for message in messages:
        for field in personal_fields(type(message)):
            value = getattr(message, field.name)
            if value is not UNSET and value != field.placeholder():
                found |= _texts(msgspec.to_builtins(value, builtin_types=_TWO_TEXTS))
    return found


def texts_in(cls: type[Struct], data: bytes) -> set[str]:
    """The same of a message in JSON, which need not fit its class."""
    try:
        values = personal_values(cls, data).values()
        return set[str]().union(*(_texts(msgspec.json.decode(value)) for value in values))
    except (ValueError, RecursionError):  # msgspec's errors are: then no value was read
        return set()


def _each_once(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(names) > len(set(names)):
        raise ValueError("a member stands there twice")


def _texts(value: Any) -> set[str]:
    found = (text.strip() for leaf in _leaves(value) for text in _spelled(leaf))
    return {text for text in found if len(text) >= SHORTEST}


def _leaves(value: Any) -> Iterator[Any]:
    """The values in lists and dicts at any depth, and the keys of dicts."""
    waiting = [value]
    while waiting:
        match waiting.pop():
            case dict() as some:
                waiting += [*some.keys(), *some.values()]
            case list() | tuple() | set() | frozenset() as some:
                waiting += some
            case None | bool():
                pass
            case leaf:
                yield leaf


def _spelled(leaf: Any) -> Iterator[str]:
    yield str(leaf)
    if isinstance(leaf, _TWO_TEXTS):
        yield encode_json(leaf).decode().strip('"')
