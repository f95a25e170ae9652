"""One partition's four topics in memory: the records that an owner would write, and changes of them."""

import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, OutputRecord
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.fold import decode_event
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Headers, Record
from cqrs_cli.core.personal.data_keys import random_key
from cqrs_cli.proof.findings import Report, Violation
from cqrs_cli.proof.partition import PartitionVerification, Scratch
from cqrs_cli.proof.scope import Loss, Scope
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.store import Store
from cqrs_cli.state.trace_index import TraceIndex

seeds = st.integers(0, 10_000)

PARTITION, WINDOW, NOW = 1, 1000, 1_000_000
TOPIC = "tally.commands"


class Add(cqrs.Command):
    n: int


class Added(cqrs.Event):
    by: int


class Tally(cqrs.State):
    total: int = 0


def decide(command: Add, tally: Tally) -> Iterator[Added]:
    if command.n < 0:
        raise cqrs.Rejected("only up", code="NEGATIVE")
    if command.n > 9:
        raise RuntimeError("too much")
    yield from (Added(number) for number in range(command.n))


def evolve(tally: Tally, event: Added) -> Tally:
    return Tally(tally.total + event.by)


AGGREGATE = Aggregate.of("tally", cqrs.Decider(decide, evolve, Tally()))


@dataclass(frozen=True)
class Wish:
    """A planned command. `n` is the number of its events. Its key may belong to another partition."""

    n: int
    subject: str = "a"
    id: str = ""
    key: bytes | None = None
    value: bytes | None = None
    wait: int = 1  # ms after the previous command
    attributes: tuple[tuple[str, Any], ...] = ()


def wish(n: int, subject: str = "a", id: str = "", **attributes: Any) -> Wish:
    return Wish(n, subject, id, attributes=tuple(attributes.items()))


class History:
    """Commands and the records of their decisions. Offsets have holes, as transactions leave them."""

    aggregate, new_key = AGGREGATE, staticmethod(random_key)

    def __init__(self, wishes: Sequence[Wish], refused: frozenset[int] = frozenset()) -> None:
        self.commands: list[Record] = []
        timestamp = NOW
        for number, each in enumerate(wishes):
            timestamp += each.wait
            value = document(each, each.id or f"c{number}") if each.value is None else each.value
            key = each.subject.encode() if each.key is None else each.key
            self.commands.append(Record(_offset(number), timestamp, key, value, list(HEADERS)))
        self.committed: int | None = self.commands[-1].offset + 1 if self.commands else None
        self.decide(refused)

    def decide(self, refused: frozenset[int] = frozenset(), window: int = WINDOW) -> None:
        """Decide all commands, and replace the records."""
        asked = (PARTITION, lambda *_: None, lambda *_: None, lambda: 0, home, TOPIC, window)
        context = BatchContext(*asked, given_up_offsets=refused, new_data_key=self.new_key)
        self.decided = decided = decide_batch(self.aggregate, self.commands, context)
        self.outcomes = laid(decided.outcomes)
        self.events = laid(decided.events)
        self.letters = [
            Record(_offset(n), letter.timestamp, letter.key, letter.value, letter.headers)
            for n, letter in enumerate(decided.dead_letters)
        ]

    def prove(
        self, seen: tuple[int | None, int | None] | None = None, on_disk: bool = False, **scope: Any
    ) -> Report:
        """Verify the history, and return the findings.

        `seen` are the offsets committed before and after the logs were read. With `on_disk`, the verification's memory
        is written to its real store every few commands.
        """
        before, after = seen or (self.committed, self.committed)
        scope.setdefault("decode_event", partial(decode_event, self.aggregate))
        starts = {"events": 0, "outcomes": 0, "dead-letters": 0} | scope.pop("starts", {})
        of = Scope("tally", TOPIC, PARTITION, starts, WINDOW, home, command_at=self.command_at, **scope)
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            outcomes, events, letters = (
                stack.enter_context(closing(TraceIndex(_made(folder / name)))) for name in "oel"
            )
            store = _store_on_disk(folder, stack) if on_disk else MemoryStore(WINDOW)
            proof = PartitionVerification(of, Scratch(outcomes, events, letters, store, flush_every=2))
            proof.outcomes.read(self.outcomes)
            proof.events.read(self.events)
            proof.dead_letters.read(self.letters)
            decided = proof.decided_range(before, after, self.commands[0].offset if self.commands else 0)
            end = proof.commands_end(decided)
            proof.check_commands((record for record in self.commands if record.offset < end), decided)
            self.conclude(proof, store)
            return proof.report()

    def conclude(self, proof: PartitionVerification, store: Store) -> None:
        """Hook for subclasses: verify more, once all records are read."""

    def command_at(self, offset: int) -> Record | None:
        return next((record for record in self.commands if record.offset == offset), None)

    def violations(self, **how: Any) -> list[Violation]:
        report = self.prove(**how)
        assert len(report.violations) == report.violation_count
        return list(report.violations)


def home(key: bytes) -> int:
    """Return the partition of a key. Keys that begin with z belong to another partition."""
    return PARTITION + key.startswith(b"z")


def document(of: Wish, id: str) -> bytes:
    attributes = dict(of.attributes)
    return json.dumps(
        {
            "specversion": "1.0",
            "id": id,
            "source": "/test",
            "type": attributes.pop("type", "tally.Add"),
            "subject": of.subject,
            "data": {"n": of.n},
            **attributes,
        }
    ).encode()


def with_value(record: Record, value: bytes | None) -> Record:
    return Record(record.offset, record.timestamp, record.key, value, record.headers)


def moved(record: Record, offset: int) -> Record:
    """Return the record with another offset."""
    return Record(offset, record.timestamp, record.key, record.value, record.headers)


def swapped(log: list[Record], one: int, other: int) -> None:
    """Swap two records. The offsets stay."""
    first, second = log[one], log[other]
    log[one], log[other] = moved(second, first.offset), moved(first, second.offset)


def appended(log: list[Record], record: Record) -> int:
    """Add a record at the end, and return its offset."""
    offset = log[-1].offset + 1 if log else 0
    log.append(moved(record, offset))
    return offset


def drawn(seed: int, count: int = 40) -> list[Wish]:
    """Draw commands whose outcomes have all statuses."""
    choice = random.Random(seed)
    return [_any(choice, number) for number in range(count)]


def _any(choice: random.Random, number: int) -> Wish:
    subject = choice.choice("abcd")
    n, wait = choice.randrange(-1, 4), choice.choice([0, 1, 50, 400])
    expected: dict[str, Any] = {}
    if choice.random() < 0.3:
        expected["expectedversion"] = choice.choice(["any", "none", "exists", "3", ">=2", "07", 2])
    match choice.randrange(12):
        case 0:
            return Wish(n, subject, value=b"\xff no JSON", wait=wait)
        case 1:
            return Wish(n, f"z{subject}", wait=wait)
        case 2:
            return Wish(n, subject, key=b"another", wait=wait)
        case 3:
            return Wish(10, subject, wait=wait)
        case 4:
            return Wish(n, subject, wait=wait, attributes=(("type", "tally.Forget"),))
        case 5 | 6 | 7:
            return Wish(n, subject, f"again{choice.randrange(3)}", wait=wait)
        case 8:
            return Wish(n, subject, wait=wait, attributes=(("correlationid", "x"), *expected.items()))
        case _:
            return Wish(n, subject, wait=wait, attributes=tuple(expected.items()))


def _offset(number: int) -> int:
    return number + number // 3


def laid(outputs: Sequence[OutputRecord]) -> list[Record]:
    headers: Headers = [*HEADERS]
    return [
        Record(_offset(n), timestamp, key, value, headers)
        for n, (value, key, timestamp) in enumerate(outputs)
    ]


def _store_on_disk(folder: Path, stack: ExitStack) -> Store:
    stack.callback((store := LmdbStore(_made(folder / "recall"), WINDOW)).close_without_sync)
    return store


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def begun_again(old: History, loss: Loss, second: str = "") -> History:
    """Return a history with two commands in a recreated topic, after the decisions of the old topic."""
    history = History([Wish(1, wait=60_000, id="x"), wish(1, id=second)])
    outcomes = [moved(one, loss.outcomes + at) for at, one in enumerate(history.outcomes)]
    events = [moved(one, loss.events + at) for at, one in enumerate(history.events)]
    history.outcomes, history.events = old.outcomes + outcomes, old.events + events
    return history
