"""The API for authors of process managers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from msgspec import Struct

from cqrs_cli.core.aggregate.decider import Command


class Send(Struct, frozen=True):
    """A command that a process manager sends to an aggregate: `Send("order", "o-7", Ship())`.

    `expect` is a version, or `any`, `none`, `exists` or `>=N`. `expires` is a duration after the event's time: a
    command that is decided later is rejected. `not_before` is an aware time, or a duration after the event's time: the
    command is deferred until then.
    """

    aggregate: str
    aggregate_id: str
    command: Command
    expect: int | str | None = None
    expires: timedelta | None = None
    not_before: datetime | timedelta | None = None


@dataclass(frozen=True, slots=True)
class Process:
    """A process manager, which turns events of aggregates into commands for other aggregates.

    `react(event, at)` returns or yields any number of commands, in the order in which they are sent. It is pure: no
    clock, no randomness, no I/O, no state. The annotation of `event`, such as `Placed | Paid`, is the subscription.
    `at: Recorded` holds the event's aggregate id, version, time and ids.
    """

    yields: ClassVar[type[Struct]] = Send  # the class of the values that `react` returns
    noun: ClassVar[str] = "commands"  # the word for these values in errors
    key_name: ClassVar[str] = "aggregate_id"  # the attribute of these values that is the record's key

    react: Callable[[Any, Any], Iterable[Any]]
