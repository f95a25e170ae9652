"""A proof that goes on where an earlier one ended: what that one left, and the end of what it can still look up."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from cqrs_cli.proof.findings import LogName, Report
from cqrs_cli.proof.places import Open, ProvedPlace
from cqrs_cli.proof.scope import Loss
from cqrs_cli.proof.traces import EventsTrace, Index


class BehindError(Exception):
    """The logs contradict what was proved earlier, or ask for more of it than was kept.

    The partition must be proved from its beginning.
    """


class Carried(Struct, frozen=True):
    """The part of a proof that the next one goes on from, besides traces, versions and ids, which are on disk.

    Commands below `commands` are proved. Records below `read` have left their traces. Traces of later commands are
    kept, and outcomes for as long as a repetition may point to them.
    """

    commands: int
    read: dict[LogName, int]
    report: Report  # of all commands below `commands`, since the beginning
    last: dict[LogName, int]  # by topic: the command of the last record
    began_again: dict[LogName, bool]
    open_events: tuple[int, EventsTrace] | None  # a later command, whose events may go on
    deferred: dict[ProvedPlace, Open]  # the commands that are deferred
    known_from: dict[LogName, int]  # by topic: the first command of which it had records
    has_begin: bool  # the events were there from the first one on
    loss: Loss | None
    oldest: int  # ms: outcomes of before cannot be repeated any more


class BoundedIndex:
    """The traces of commands from `floor` on, and the traces of earlier outcomes that were kept: an `Index`."""

    def __init__(self, index: Index, floor: int) -> None:
        self.known_from = 0  # the first command that may have a trace: the logs have none before
        self._index = index
        self._floor = floor

    def add(self, command: int, trace: bytes) -> bytes | None:
        """Keep a trace; raises `BehindError` if its command was proved earlier."""
        self._check(command, "has a record that comes after its proof")
        return self._index.add(command, trace)

    def get(self, command: int) -> bytes | None:
        """The trace of a command; raises `BehindError` if it may have had one that was not kept."""
        found = self._index.get(command)
        if found is None and command >= self.known_from:
            self._check(command, "is pointed to, and its outcome was not kept")
        return found

    def first(self) -> int | None:
        """The lowest command from the floor on."""
        return next((command for command, _ in self.items()), None)

    def last(self) -> int | None:
        """The highest command."""
        return self._index.last()

    def cut(self, command: int) -> int:
        """Delete the traces from a command on; raises `BehindError` if some were proved earlier."""
        self._check(command, "is where the commands began again")
        return self._index.cut(command)

    def items(self) -> Iterator[tuple[int, bytes]]:
        """The traces from the floor on."""
        return (item for item in self._index.items() if item[0] >= self._floor)

    def _check(self, command: int, what: str) -> None:
        if command < self._floor:
            raise BehindError(f"command {command} {what}")


def check_beginning(carried: Carried, starts: Mapping[LogName, int], loss: Loss | None) -> None:
    """Raise `BehindError` if the events in between were deleted, or another loss was accepted since."""
    if starts["events"] > carried.read["events"]:
        raise BehindError("events were deleted that no verify has read")
    if loss != carried.loss:
        raise BehindError("an operator has accepted a loss since")
