"""What is kept of outcomes, events and dead letters until their commands come by: one trace a command and topic.

Outcomes and events follow their commands' order, but a fault may break it; so traces rest in an index on disk, by
the command's offset, to be read back in its order.
"""

from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import Findings, Kind
from cqrs_cli.proof.scope import Scope

#: Offsets and versions are below it: what a record says beyond is none.
LIMIT = 2**63


def key_of(record: Record) -> bytes | None:
    """The key; an empty one is none: clients differ in how they pass it on."""
    return record.key or None


class OutcomeTrace(Struct, array_like=True, gc=False):
    """An outcome: what it tells of its command. `at` is its own offset."""

    at: int
    timestamp: int
    key: bytes | None
    type: str
    subject: str | None
    cause: str | None
    correlation: str | None
    status: str
    reason: str
    version: int
    events: int
    expected: str | None
    fingerprint: int | None
    original: tuple[int, str, int, int] | None  # offset, status, version, events
    decidedat: str | None  # by the owner's clock: of what had expired


class EventsTrace(Struct, array_like=True, gc=False):
    """The events of one command, from offset `at` on: the first one announces `count`, they reach up to `reach`."""

    at: int
    timestamp: int
    subject: str
    cause: str
    correlation: str
    version: int  # of the first
    count: int
    reach: int = 0

    @property
    def last(self) -> int:
        """The version that they lead to."""
        return self.version + self.count - 1


class DeadLetterTrace(Struct, array_like=True, gc=False):
    """A dead letter: CRC-32 of the bytes and headers that it keeps."""

    at: int
    timestamp: int
    key: bytes | None
    reason: str
    value: int | None
    headers: int


class Index(Protocol):
    """Traces by command offset, on disk. `state.trace_index` has the one implementation."""

    def add(self, command: int, trace: bytes) -> bytes | None:
        """Keep a trace, unless the command has one already: that one is given, and stays."""

    def get(self, command: int) -> bytes | None:
        """The trace of a command."""

    def first(self) -> int | None:
        """The lowest command with a trace."""

    def last(self) -> int | None:
        """The highest command with a trace."""

    def cut(self, command: int) -> int:
        """Forget the traces from a command on; says how many."""

    def items(self) -> Iterator[tuple[int, bytes]]:
        """All of them, by command. Finish before the next change."""


T = TypeVar("T", bound=Struct)

encode: Callable[[Struct], bytes] = msgspec.msgpack.Encoder().encode
_place: Callable[[bytes], list[Any]] = msgspec.msgpack.Decoder(list[Any]).decode


class Traces:
    """One topic's traces as its log is read: each command has one, and they come in the order of the commands."""

    def __init__(self, kind: Kind, scope: Scope, index: Index, findings: Findings) -> None:
        self.kind = kind
        self.index = index
        self.last = -1  # the command of the last record read
        self.began_again = False
        self._loss = scope.loss
        self._findings = findings

    def keep(self, command: int, at: int, trace: Struct, *, after_loss: bool) -> None:
        """Take in the trace of a record at offset `at`. `after_loss`: from here on it may be what follows an accepted
        loss, in a commands topic that was created again: what has been kept of its predecessor is let go.
        """
        descends = command <= self.last
        if descends and after_loss and not self.began_again and self._loss is not None:
            self._findings.accepted += self.index.cut(self._loss.at)
            self.began_again = True
            descends = False
        first = self.index.add(command, encode(trace))
        if first is not None:
            self._findings.add(
                self.kind, at, f"is of command {command}, as is what stands at offset {_place(first)[0]}"
            )
        elif descends:
            self._findings.add(
                self.kind, at, f"is of command {command}, and stands behind what is of command {self.last}"
            )
        self.last = command
