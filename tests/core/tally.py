"""An aggregate for tests of deciding, its commands as records, and a partition in memory."""

import json
import sys
from asyncio import CancelledError
from collections.abc import Iterator
from typing import Any

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, Decisions, OutputRecord
from cqrs_cli.core.decide import Batch
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.payload_reference import PayloadReference
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import DedupEntry

WINDOW = 1000


class Add(cqrs.Command):
    n: int


class Crash(cqrs.Command):
    mode: str

    def __post_init__(self) -> None:
        if self.mode == "undone":
            raise LookupError(self.mode)
        if self.mode == "unread":
            raise MemoryError(self.mode)
        if self.mode == "interrupt-unread":
            raise KeyboardInterrupt


class UnprintableError(Exception):
    """An exception whose `str` fails."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class InterruptingError(Exception):
    """An exception whose `str` raises `KeyboardInterrupt`."""

    def __str__(self) -> str:
        raise KeyboardInterrupt


def broken_trace(*_: object) -> None:
    raise RuntimeError("traced")


class Added(cqrs.Event):
    n: int


class Tally(cqrs.State):
    total: int = 0


def decide(command: Add | Crash, tally: Tally) -> Iterator[Added]:
    match command:
        case Add(n) if n < 0:
            raise cqrs.Rejected("only up", code="NEGATIVE")
        case Add(n):
            yield from (Added(1) for _ in range(n))
        case Crash("raise"):
            raise RuntimeError("boom")
        case Crash("exit"):
            raise SystemExit(0)
        case Crash("memory"):
            raise MemoryError
        case Crash("files"):
            raise OSError(24, "Too many open files")
        case Crash("deep"):
            raise RecursionError
        case Crash("fold-memory"):
            yield Added(-2)
        case Crash("cancel"):
            raise CancelledError
        case Crash("interrupt"):
            raise KeyboardInterrupt
        case Crash("interrupt-text"):
            raise InterruptingError
        case Crash("interrupt-mumble"):
            raise cqrs.Rejected(InterruptingError())  # type: ignore[arg-type]
        case Crash("interrupt-fold"):
            yield Added(-3)
        case Crash("trace"):
            sys.settrace(broken_trace)
        case Crash("profile"):
            sys.setprofile(lambda *_: None)
        case Crash("mute"):
            raise UnprintableError
        case Crash("mumble"):
            raise cqrs.Rejected(UnprintableError())  # type: ignore[arg-type]
        case Crash("number"):
            raise cqrs.Rejected(42)  # type: ignore[arg-type]
        case Crash("half"):
            yield Added(0)
        case Crash("fold"):
            yield Added(-1)
        case Crash("endless"):
            while True:
                yield Added(0)
        case Crash("large"):
            yield Added(int("9" * 4000))
        case Crash("bytes"):
            yield b"no event"  # type: ignore[misc]
        case Crash("nothing"):
            yield Added(None)  # type: ignore[arg-type]


def evolve(tally: Tally, event: Added) -> Tally:
    if event.n == -2:
        raise MemoryError
    if event.n == -3:
        raise KeyboardInterrupt
    if event.n < 0:
        raise cqrs.Rejected("too late to refuse")
    if event.n == 0:
        return Tally(0.5)  # type: ignore[arg-type]
    return Tally(tally.total + event.n)


AGGREGATE = Aggregate.of("tally", cqrs.Decider(decide, evolve, Tally()))


def command(
    name: str = "Add", data: Any = None, *, id: str = "1", subject: str = "a", **attributes: Any
) -> bytes:
    return json.dumps(
        {
            "specversion": "1.0",
            "id": id,
            "source": "/test",
            "type": f"tally.{name}",
            "subject": subject,
            "data": {"n": 1} if data is None else data,
            **attributes,
        }
    ).encode()


def record(offset: int, value: bytes | None, key: bytes | None = b"a", timestamp: int = 5000) -> Record:
    return Record(offset, timestamp, key, value, list(HEADERS))


class Partition:
    """A partition in memory, which decides batches and stores their results."""

    aggregate = AGGREGATE

    def __init__(self, **context: Any) -> None:
        self.states: dict[str, VersionedState] = {}
        self.dedup_entries: dict[tuple[str, str], DedupEntry] = {}
        self.clock = 0
        self.context = context
        self.events: list[OutputRecord] = []
        self.outcomes: list[OutputRecord] = []
        self.dead_letters: list[Any] = []
        self.payloads: dict[PayloadReference, bytes] = {}

    def batch(self) -> Batch:
        """Return the next batch, which the test decides in pieces."""
        context = BatchContext(
            3,
            self.states.get,
            lambda subject, id: self.dedup_entries.get((subject, id)),
            lambda: 6000,
            dedup_window=WINDOW,
            clock=self.clock,
            topic="tally.commands",
            **self.context,
        )
        return Batch(self.aggregate, context)

    def decide(self, *records: Record) -> Decisions:
        decisions = self.batch().decide_piece(records)
        self.states |= decisions.states
        self.dedup_entries |= decisions.dedup_entries
        self.clock = decisions.clock
        self.events += decisions.events
        self.outcomes += decisions.outcomes
        self.dead_letters += decisions.dead_letters
        self.payloads |= decisions.payloads
        return decisions

    def last_outcome(self) -> dict[str, Any]:
        return dict(json.loads(self.outcomes[-1][0]))

    def verdict(self, *records: Record) -> dict[str, Any]:
        self.decide(*records)
        return dict(self.last_outcome()["data"])
