"""Traces: the parts of outcomes, events and dead letters that are kept until their commands are read.

There is one trace for each command and topic. Outcomes and events follow the order of their commands, but a fault may
break it; so traces are kept in an index on disk, by the command's offset, and read back in that order.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import Findings, LogName
from cqrs_cli.proof.places import ProvedPlace
from cqrs_cli.proof.scope import Scope

#: Offsets and versions are below it; a greater number in a record is invalid.
LIMIT = 2**63


def key_of(record: Record) -> bytes | None:
    """The key; an empty one counts as None, since clients differ in how they return it."""
    return record.key or None


class OutcomeTrace(Struct, array_like=True, gc=False):
    """The members of an outcome. `at` is its own offset."""

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
    original: tuple[ProvedPlace, str, int, int] | None  # place, status, version, events
    decidedat: str | None  # by the owner's clock; only of a command that had expired
    deferredfrom: str | None = None
    target: tuple[ProvedPlace, str] | None = (
        None  # place and id of the deferred command that a reserved type is about
    )
    due: int | None = None  # ms; of a command that is deferred
    attempt: int | None = None  # how often `decide` had put it off; also of one that was given up for it
    movedto: int | None = None  # the partition that has its key; also of one that was too large to follow

    @property
    def result(self) -> str:
        """The reason, or the status of an outcome that has no reason."""
        return self.reason or self.status


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
    kid: str | None = None  # the key that they name, of personal fields
    ends: bool = False  # they end it

    @property
    def last(self) -> int:
        """The version after the last of them."""
        return self.version + self.count - 1


class DeadLetterTrace(Struct, array_like=True, gc=False):
    """A dead letter, with the CRC-32 of the bytes and headers that it keeps."""

    at: int
    timestamp: int
    key: bytes | None
    reason: str
    value: int | None
    headers: int


class Lookup(Protocol):
    """Traces to be looked up by the place of their command."""

    def get(self, command: Any, /) -> bytes | None: ...


class Index(Protocol):
    """Traces by command offset, on disk. `state.trace_index` has the one implementation."""

    def add(self, command: int, trace: bytes) -> bytes | None:
        """Keep a trace, unless the command has one already: then return that one and change nothing."""

    def get(self, command: int) -> bytes | None:
        """The trace of a command."""

    def first(self) -> int | None:
        """The lowest command with a trace."""

    def last(self) -> int | None:
        """The highest command with a trace."""

    def cut(self, command: int) -> int:
        """Delete the traces from a command on; returns their number."""

    def items(self) -> Iterator[tuple[int, bytes]]:
        """All traces, by command. Finish before the next change."""


_encode: Callable[[Struct], bytes] = msgspec.msgpack.Encoder().encode
_members: Callable[[bytes], list[Any]] = msgspec.msgpack.Decoder(list[Any]).decode


def time_of(trace: bytes) -> int:
    """The timestamp in a trace, ms."""
    found: int = _members(trace)[1]
    return found


class Earlier(Protocol):
    """An earlier proof, by topic: the command of the last record, and whether the commands had begun again."""

    @property
    def last(self) -> Mapping[LogName, int]: ...

    @property
    def began_again(self) -> Mapping[LogName, bool]: ...


class Traces:
    """The traces of one topic, kept while its log is read: one for each command, in the order of the commands."""

    def __init__(
        self, kind: LogName, scope: Scope, index: Index, findings: Findings, earlier: Earlier | None = None
    ) -> None:
        self.kind = kind
        self.index = index
        self.last = -1 if earlier is None else earlier.last[kind]  # the command of the last record read
        self.began_again = earlier is not None and earlier.began_again[kind]
        self.first: int | None = None  # the lowest command of the records read
        self._loss = scope.loss
        self._findings = findings

    def keep(
        self, command: int, at: int, trace: Struct, *, after_loss: bool, findings: Findings | None = None
    ) -> None:
        """Keep the trace of a record at offset `at`. `after_loss`: the record may be the first after an accepted loss,
        in a commands topic that was created again; then the traces of the old topic are deleted.

        `findings`: others than usual for what is wrong with the record's place.
        """
        findings = self._findings if findings is None else findings
        is_out_of_order = command <= self.last
        if is_out_of_order and after_loss and not self.began_again and self._loss is not None:
            self._findings.accepted += self.index.cut(self._loss.at)
            self.began_again = True
            is_out_of_order = False
        if self.first is None or command < self.first:
            self.first = command
        first = self.index.add(command, _encode(trace))
        if first is not None:
            findings.add(
                self.kind, at, f"is of command {command}, as is the record at offset {_members(first)[0]}"
            )
        elif is_out_of_order:
            findings.add(self.kind, at, f"is of command {command}, and comes after command {self.last}")
        self.last = command
