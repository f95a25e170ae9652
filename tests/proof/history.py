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
from cqrs_cli.state.entry_index import EntryIndex
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.store import Store

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
class PlannedCommand:
    """A planned command. `n` is the number of its events. Its key may belong to another partition."""

    n: int
    subject: str = "a"
    id: str = ""
    key: bytes | None = None
    value: bytes | None = None
    wait: int = 1  # in ms, after the previous command
    attributes: tuple[tuple[str, Any], ...] = ()


def plan_command(n: int, subject: str = "a", id: str = "", **attributes: Any) -> PlannedCommand:
    return PlannedCommand(n, subject, id, attributes=tuple(attributes.items()))


class History:
    """Commands and the records of their decisions. Offsets have holes, as transactions leave them."""

    aggregate, new_key = AGGREGATE, staticmethod(random_key)

    def __init__(self, planned: Sequence[PlannedCommand], refused: frozenset[int] = frozenset()) -> None:
        self.commands: list[Record] = []
        timestamp = NOW
        for number, command in enumerate(planned):
            timestamp += command.wait
            value = (
                command_document(command, command.id or f"c{number}")
                if command.value is None
                else command.value
            )
            key = command.subject.encode() if command.key is None else command.key
            self.commands.append(Record(_offset(number), timestamp, key, value, list(HEADERS)))
        self.committed: int | None = self.commands[-1].offset + 1 if self.commands else None
        self.decide(refused)

    def decide(self, refused: frozenset[int] = frozenset(), window: int = WINDOW) -> None:
        """Decide all commands, and replace the records."""
        arguments = (PARTITION, lambda *_: None, lambda *_: None, lambda: 0, partition_of, TOPIC, window)
        context = BatchContext(*arguments, force_failed=refused, new_data_key=self.new_key)
        self.decided = decided = decide_batch(self.aggregate, self.commands, context)
        self.outcomes = output_records(decided.outcomes)
        self.events = output_records(decided.events)
        self.letters = [
            Record(_offset(n), letter.timestamp, letter.key, letter.value, letter.headers)
            for n, letter in enumerate(decided.dead_letters)
        ]

    def verify(
        self, committed: tuple[int | None, int | None] | None = None, on_disk: bool = False, **scope: Any
    ) -> Report:
        """Verify the history, and return the findings.

        `committed` are the offsets committed before and after the logs were read. With `on_disk`, the verification's
        memory is written to its real store every few commands.
        """
        committed_before, committed_after = committed or (self.committed, self.committed)
        scope.setdefault("decode_event", partial(decode_event, self.aggregate))
        starts = {"events": 0, "outcomes": 0, "dead-letters": 0} | scope.pop("starts", {})
        verify_scope = Scope(
            "tally", TOPIC, PARTITION, starts, WINDOW, partition_of, command_at=self.command_at, **scope
        )
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            outcomes, events, letters = (
                stack.enter_context(closing(EntryIndex(_make_folder(folder / name)))) for name in "oel"
            )
            store = _store_on_disk(folder, stack) if on_disk else MemoryStore(WINDOW)
            proof = PartitionVerification(
                verify_scope, Scratch(outcomes, events, letters, store, flush_every=2)
            )
            proof.outcomes.read(self.outcomes)
            proof.events.read(self.events)
            proof.dead_letters.read(self.letters)
            decided = proof.find_decided_range(
                committed_before, committed_after, self.commands[0].offset if self.commands else 0
            )
            end = proof.commands_end(decided)
            proof.check_commands((record for record in self.commands if record.offset < end), decided)
            self.check_more(proof, store)
            return proof.report()

    def check_more(self, proof: PartitionVerification, store: Store) -> None:
        """Hook for subclasses: verify more, once all records are read."""

    def command_at(self, offset: int) -> Record | None:
        return next((record for record in self.commands if record.offset == offset), None)

    def violations(self, **options: Any) -> list[Violation]:
        report = self.verify(**options)
        assert len(report.violations) == report.violation_count
        return list(report.violations)


def partition_of(key: bytes) -> int:
    """Return the partition of a key. Keys that begin with z belong to another partition."""
    return PARTITION + key.startswith(b"z")


def command_document(planned: PlannedCommand, id: str) -> bytes:
    attributes = dict(planned.attributes)
    return json.dumps(
        {
            "specversion": "1.0",
            "id": id,
            "source": "/test",
            "type": attributes.pop("type", "tally.Add"),
            "subject": planned.subject,
            "data": {"n": planned.n},
            **attributes,
        }
    ).encode()


def with_value(record: Record, value: bytes | None) -> Record:
    return Record(record.offset, record.timestamp, record.key, value, record.headers)


def with_offset(record: Record, offset: int) -> Record:
    """Return the record with another offset."""
    return Record(offset, record.timestamp, record.key, record.value, record.headers)


def swap_records(log: list[Record], first_index: int, second_index: int) -> None:
    """Swap two records. The offsets stay."""
    first, second = log[first_index], log[second_index]
    log[first_index], log[second_index] = with_offset(second, first.offset), with_offset(first, second.offset)


def append_record(log: list[Record], record: Record) -> int:
    """Add a record at the end, and return its offset."""
    offset = log[-1].offset + 1 if log else 0
    log.append(with_offset(record, offset))
    return offset


def random_commands(seed: int, count: int = 40) -> list[PlannedCommand]:
    """Draw commands whose outcomes have all statuses."""
    rng = random.Random(seed)
    return [_random_command(rng, number) for number in range(count)]


def _random_command(rng: random.Random, number: int) -> PlannedCommand:
    subject = rng.choice("abcd")
    n, wait = rng.randrange(-1, 4), rng.choice([0, 1, 50, 400])
    expected: dict[str, Any] = {}
    if rng.random() < 0.3:
        expected["expectedversion"] = rng.choice(["any", "none", "exists", "3", ">=2", "07", 2])
    match rng.randrange(12):
        case 0:
            return PlannedCommand(n, subject, value=b"\xff no JSON", wait=wait)
        case 1:
            return PlannedCommand(n, f"z{subject}", wait=wait)
        case 2:
            return PlannedCommand(n, subject, key=b"another", wait=wait)
        case 3:
            return PlannedCommand(10, subject, wait=wait)
        case 4:
            return PlannedCommand(n, subject, wait=wait, attributes=(("type", "tally.Forget"),))
        case 5 | 6 | 7:
            return PlannedCommand(n, subject, f"again{rng.randrange(3)}", wait=wait)
        case 8:
            return PlannedCommand(
                n, subject, wait=wait, attributes=(("correlationid", "x"), *expected.items())
            )
        case _:
            return PlannedCommand(n, subject, wait=wait, attributes=tuple(expected.items()))


def _offset(number: int) -> int:
    return number + number // 3


def output_records(outputs: Sequence[OutputRecord]) -> list[Record]:
    headers: Headers = [*HEADERS]
    return [
        Record(_offset(n), timestamp, key, value, headers)
        for n, (value, key, timestamp) in enumerate(outputs)
    ]


def _store_on_disk(folder: Path, stack: ExitStack) -> Store:
    stack.callback((store := LmdbStore(_make_folder(folder / "recall"), WINDOW)).close_without_sync)
    return store


def _make_folder(folder: Path) -> Path:
    folder.mkdir()
    return folder


def restarted_history(old: History, loss: Loss, second: str = "") -> History:
    """Return a history with two commands in a recreated topic, after the decisions of the old topic."""
    history = History([PlannedCommand(1, wait=60_000, id="x"), plan_command(1, id=second)])
    outcomes = [
        with_offset(record, loss.outcomes_end + index) for index, record in enumerate(history.outcomes)
    ]
    events = [with_offset(record, loss.events_end + index) for index, record in enumerate(history.events)]
    history.outcomes, history.events = old.outcomes + outcomes, old.events + events
    return history
