"""A counter that several people may change, with compare-and-set for a reset.

Increments commute, so they need no expected version. A reset does not commute: send the version that you saw, and
the reset is rejected if the counter has changed since then.

    cqrs send counter visits Increment by:=3
    cqrs send counter visits Reset --expect 7

The names of the events and of their fields are the storage format: add new names, never change a name.
"""

from collections.abc import Iterator
from typing import assert_never

import cqrs_cli as cqrs


class Increment(cqrs.Command):
    """Count up, or down with a negative number. Zero changes nothing."""

    by: int = 1


class Reset(cqrs.Command):
    """Set the counter to a value. If it has this value already, nothing changes."""

    to: int = 0


class Incremented(cqrs.Event):
    by: int


class WasReset(cqrs.Event):
    to: int


class Counter(cqrs.State):
    value: int = 0


def decide(command: Increment | Reset, counter: Counter) -> Iterator[Incremented | WasReset]:
    match command:
        case Increment(by):
            if by != 0:
                yield Incremented(by)
        case Reset(to):
            if to != counter.value:
                yield WasReset(to)
        case _:
            assert_never(command)


def evolve(counter: Counter, event: Incremented | WasReset) -> Counter:
    match event:
        case Incremented(by):
            return cqrs.replace(counter, value=counter.value + by)
        case WasReset(to):
            return cqrs.replace(counter, value=to)


decider = cqrs.Decider(decide, evolve, initial=Counter())
