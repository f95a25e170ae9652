"""The task of `cqrs whatif` on a worker: one partition's logs, read side by side and decided again."""

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.kafka.topics.topics import AggregateTopics, Kind
from cqrs_cli.proof.whatif.decided import (
    HistoryError,
    Lookahead,
    join_history,
    placed_events,
    placed_outcomes,
)
from cqrs_cli.proof.whatif.difference import DifferenceKind, HistoryDifference
from cqrs_cli.registry import load, load_from
from cqrs_cli.scans.log_teller import LogTeller
from cqrs_cli.scans.whatif.redeciding import Redeciding, RehearsedCounts
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.telemetry.datagrams import Address

#: Differences of each label that are shown.
MOST_EXAMPLES = 3

Label = tuple[DifferenceKind, str, str]


@dataclass(frozen=True, slots=True)
class WhatifPlan:
    """The data that every task needs."""

    connection: Connection
    described: AggregateTopics
    package: str
    root: Path  # where the package lies
    module: str  # the other code
    module_root: Path  # where its package lies
    deciding: DecisionSettings
    since: int | None = None  # ms
    until: int | None = None  # ms
    words: Address | None = None  # where tasks tell how far they are


@dataclass(slots=True)
class WhatifResult:
    """The result of one partition: numbers and examples, or the error that ends the job."""

    partition: int
    commands: int = 0
    aggregates: int = 0
    not_asked: int = 0
    deleted: bool = False  # retention has deleted commands that were asked for
    counts: Counter[Label] = field(default_factory=Counter)
    examples: dict[Label, list[HistoryDifference]] = field(default_factory=dict)
    error: CqrsError | None = None

    def note(self, found: HistoryDifference) -> None:
        """Count a difference, and keep it among the first ones."""
        self.counts[found.label] += 1
        kept = self.examples.setdefault(found.label, [])
        if len(kept) < MOST_EXAMPLES:
            kept.append(found)


def decide_again(plan: WhatifPlan, result: WhatifResult) -> Iterator[HistoryDifference]:
    """The differences of one partition: first of commands in their order, then of states. `result` is filled.

    Raises `ContradictionError` for logs that do not fit each other, or that one of the codes cannot fold.
    """
    topics, place = plan.described.topics, plan.connection.payloads
    log = PartitionLog(plan.connection, topics, result.partition, place)
    try:
        with ExitStack() as stack:
            teller = stack.enter_context(closing(LogTeller(plan.words, result.partition)))
            for found in _differences(plan, log, result, teller, stack):
                result.note(found)
                yield found
    except HistoryError as error:
        also = "cqrs verify says if the history is whole"
        raise log.fault(error.kind, error.offset, str(error), also) from error


def _differences(
    plan: WhatifPlan, log: PartitionLog, result: WhatifResult, teller: LogTeller, stack: ExitStack
) -> Iterator[HistoryDifference]:
    def records(kind: Kind, start: int, end: int) -> Iterator[Record]:
        read = log.events(start, end) if kind == "events" else log.read(kind, start, end)
        return chain.from_iterable(teller.follow(read, start, end))

    decided = log.bounds("outcomes")  # before the events: what is decided has its events
    outcomes = Lookahead(placed_outcomes(records("outcomes", *decided)))
    start, end = _stretch(plan, log, outcomes.command, result)
    happened = log.bounds("events", "read_uncommitted")
    teller.begin(sum(after - before for before, after in (decided, happened, (start, end))))
    events = Lookahead(placed_events(records("events", *happened)))
    redeciding = _rehearing(plan, log, stack)
    redeciding.fold_before(events.below(start))
    redeciding.remember_before(outcomes.below(start))
    yield from redeciding.decide(join_history(records("commands", start, end), outcomes, events))
    yield from redeciding.states()
    _note(result, redeciding.progress)


def _note(result: WhatifResult, progress: RehearsedCounts) -> None:
    result.commands, result.aggregates, result.not_asked = (
        progress.commands,
        progress.aggregates,
        progress.not_asked,
    )


def _stretch(plan: WhatifPlan, log: PartitionLog, first: int | None, result: WhatifResult) -> tuple[int, int]:
    """The commands to decide again: from the first one that is not older than `since`, is still there and has its
    outcome, to the last decided one before the first that is later than `until`.
    """
    (low, high), (oldest, end) = log.bounds("commands", "read_uncommitted"), log.bounds("outcomes")
    last = log.last_record("outcomes", oldest, end)
    if first is None or last is None:
        return high, high
    kept = max(low, first) if oldest else low
    wanted = 0 if plan.since is None else log.offset_at("commands", plan.since)
    start = high if wanted is None else max(kept, wanted)
    result.deleted = kept > 0 and wanted is not None and wanted <= kept and (low > 0 or oldest > 0)
    stop = read_outcome(last.value).data.offset + 1
    if plan.until is not None and (later := log.offset_at("commands", plan.until + 1)) is not None:
        stop = min(stop, later)
    return start, max(start, stop)


def _rehearing(plan: WhatifPlan, log: PartitionLog, stack: ExitStack) -> Redeciding:
    name, place = plan.described.topics.aggregate, plan.connection.payloads
    rules = plan.deciding.rules(plan.described, log.partition, place)
    today = load(name, plan.package, plan.root)
    other = load_from(name, plan.module, plan.module_root)
    return Redeciding(rules, today, other, *scratch(stack, rules.window), place)


def scratch(stack: ExitStack, window: int) -> tuple[LmdbStore, LmdbStore]:
    """Two stores in a temporary folder (TMPDIR), whose files lose their names as soon as they are open."""
    with tempfile.TemporaryDirectory(prefix="cqrs-whatif-") as folder:
        stores = []
        for name in ("was", "would"):
            (Path(folder) / name).mkdir()
            stores.append(LmdbStore(Path(folder) / name, window))
            stack.callback(stores[-1].abandon)
    return stores[0], stores[1]
