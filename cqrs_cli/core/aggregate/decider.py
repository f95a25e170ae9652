"""The vocabulary of an aggregate: what its author writes against."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar, dataclass_transform

from msgspec import Struct, field


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Command(Struct, frozen=True, forbid_unknown_fields=True):
    """A wish, named in the imperative: `Withdraw`. It may be rejected."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Event(Struct, frozen=True):
    """A fact, named in the past tense: `Withdrawn`. Never rejected; fields it does not know are ignored."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class State(Struct, frozen=True):
    """The state of an aggregate, as an immutable value: every field needs a default."""


class Rejected(Exception):
    """The aggregate says no. Raised by `decide`; becomes an outcome `rejected` with reason `BUSINESS_RULE`.

    `message` is for people, `code` (upper case, stable) for programs.
    """

    def __init__(self, message: str, *, code: str = "REJECTED") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Context(Struct, frozen=True, gc=False):
    """The circumstances of a command, for a `decide` that asks for them: the same whenever the command is decided.

    `time` is aware, in UTC: when the broker took the command, and the `time` of its events.
    """

    aggregate_id: str
    version: int  # before the command; 0: the aggregate does not exist
    time: datetime
    command_id: str
    correlation_id: str  # the command's id if it was sent without one


_C = TypeVar("_C")
_S = TypeVar("_S")
_E = TypeVar("_E")


@dataclass(frozen=True, slots=True)
class Decider(Generic[_C, _S, _E]):
    """An aggregate as a value.

    `decide(command, state)` gives the events, or raises `Rejected`; `evolve(state, event)` gives the next state.
    Both are pure: no clock, no randomness, no I/O. A `decide` with a third parameter, `at: Context`, is told when.
    `initial` is the state at version 0. Raise `revision` whenever the meaning of `evolve` changes: shards of another
    revision are rebuilt from the events.

    `upcasters` read what older code wrote: from the name of an event to a function that gets its data as a dict and
    gives an event of today, `{"Deposited": from_v1}`. It gets all data under this name, whenever it was written.
    """

    decide: Callable[[_C, _S], Iterable[_E]] | Callable[[_C, _S, Context], Iterable[_E]]
    evolve: Callable[[_S, _E], _S]
    initial: _S
    revision: int = 1
    upcasters: Mapping[str, Callable[[dict[str, Any]], _E]] = dataclasses.field(
        default_factory=dict, hash=False
    )
