"""The vocabulary of a process: what its author writes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct

from cqrs_cli.core.aggregate.decider import Command


class Send(Struct, frozen=True):
    """A command for an aggregate, as a process sends it.

    `expect` is a version, or `any`, `none`, `exists` or `>=N`. `expires` counts from the event's time: a command that
    is decided later is rejected. `not_before` is an aware time, or counts from the event's: the command is deferred
    until then.
    """

    aggregate: str
    aggregate_id: str
    command: Command
    expect: int | str | None = None
    expires: timedelta | None = None
    not_before: datetime | timedelta | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """Events of one aggregate become commands of another.

    `react(event, at)` gives the commands, none or several, in the order in which they are sent. It is pure: no clock,
    no randomness, no I/O, no state. The annotation of `event`, `Placed | Paid`, says which events it is called with;
    `at: Recorded` says of which aggregate the event is, and its version, time and ids.
    """

    react: Callable[[Any, Any], Iterable[Send]]
