"""The API for authors of aggregates."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar, dataclass_transform

from msgspec import Struct, field


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Command(Struct, frozen=True, forbid_unknown_fields=True):
    """A request, named in the imperative: `Withdraw`. It may be rejected."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Event(Struct, frozen=True):
    """A fact, named in the past tense: `Withdrawn`. It is never rejected. Decoding ignores unknown fields."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class State(Struct, frozen=True):
    """The state of an aggregate, as an immutable value. Every field needs a default."""


class Rejected(Exception):
    """Raised by `decide` to reject the command: the outcome is `rejected` with the reason `BUSINESS_RULE`.

    `message` is for people. `code` is for programs: upper case, such as `OVERDRAWN`, and stable.
    """

    def __init__(self, message: str, *, code: str = "REJECTED") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Context(Struct, frozen=True, gc=False):
    """The metadata of a command, for a `decide` with a third parameter. A repeated decision gets an equal context.

    `time` is aware, in UTC: the broker's timestamp of the command, and the `time` of its events.
    """

    aggregate_id: str
    version: int  # before the command; 0: the aggregate does not exist
    time: datetime
    command_id: str
    correlation_id: str  # the command's id if the command has no correlation id


_C = TypeVar("_C")
_S = TypeVar("_S")
_E = TypeVar("_E")


@dataclass(frozen=True, slots=True)
class Decider(Generic[_C, _S, _E]):
    """An aggregate as a value.

    `decide(command, state)` returns or yields events, or raises `Rejected`. `evolve(state, event)` returns the next
    state. Both are pure: no clock, no randomness, no I/O. A `decide` with a third parameter, `at: Context`, gets the
    command's time and ids. `initial` is the state at version 0. Raise `revision` whenever the meaning of `evolve`
    changes: shards of another revision are rebuilt from the events.

    `upcasters` convert events of older code: `{"Deposited": from_v1}` maps the name of an event to a function from the
    data, a dict, to a current event. The function gets the data of all events with this name, old and new.
    """

    decide: Callable[[_C, _S], Iterable[_E]] | Callable[[_C, _S, Context], Iterable[_E]]
    evolve: Callable[[_S, _E], _S]
    initial: _S
    revision: int = 1
    upcasters: Mapping[str, Callable[[dict[str, Any]], _E]] = dataclasses.field(
        default_factory=dict, hash=False
    )
