"""The tasks of a run: a lost one costs its neighbours nothing, and slots that join or go are used as they are."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cqrs_cli.deciding.plan import OwnerResult, Plan
from cqrs_cli.deciding.retire import retire
from cqrs_cli.jobs.run import run_owners
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.ownership.dealing import Share
from cqrs_cli.runs.snapshot import Snapshot
from cqrs_cli.runs.task import own
from tests.support.commands import increments
from tests.support.driver import Context
from tests.support.harness import IMPATIENT, TopicHarness
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

HASTY = replace(IMPATIENT, first_backoff=0.01, progress_interval=0.05, spread_every=0.05, slotless=0.2)

Owners = Callable[[Plan, Share, threading.Event], Iterable[OwnerResult]]


def works(plan: Plan, share: Share, _: threading.Event) -> Iterable[OwnerResult]:
    """As on a machine of its own: a process has a shard open once."""
    plan = replace(plan, state_dir=plan.state_dir / str(plan.submission))
    return cast(Iterable[OwnerResult], own(plan, [plan.partitions()[number] for number in share], 0))


class Cluster(Context):
    """A Spark context with slots that come and go: a task waits for one. What a cancelled one does is up to it."""

    def __init__(self, slots: int, owners: Owners) -> None:
        super().__init__()
        self.slots, self._owners = slots, owners
        self.begun: list[tuple[int, Share]] = []  # the submission and the places of each task that ran
        self._here = threading.local()
        self._ends: dict[str, threading.Event] = defaultdict(threading.Event)

    def setJobGroup(self, *named: object, **__: object) -> None:
        self._here.group = named[0]

    def cancelJobGroup(self, group: str) -> None:
        self._ends[group].set()

    def mapPartitionsWithIndex(self, function: Any) -> SimpleNamespace:
        plan, _, share, results = function.args
        ends = self._ends[self._here.group]

        def count() -> None:
            eventually(lambda: ends.is_set() or len(self._busy) < self.slots)
            self._busy.append(1)
            try:
                if not ends.is_set():
                    self.begun.append((plan.submission, share))
                    for ending in self._owners(plan, share, ends):
                        results.value[plan.partitions().index(ending.owned)] = ending
            finally:
                self._busy.pop()

        return SimpleNamespace(count=count)


@pytest.fixture
def two(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Counters in two partitions: `a` is in the one, `d` in the other."""
    counters = TopicHarness(connection, prefix, tmp_path, partitions=2)
    assert (counters.home("a"), counters.home("d")) == (0, 1)
    return counters


def retired(plan: Plan) -> bool:
    retire(plan)
    return False


@contextmanager
def driven(context: Context, plan: Plan, tasks: int, notes: list[str]) -> Iterator["Future[Snapshot]"]:
    """A run at work; it is retired at the end of the block, and must end quietly."""
    plan = replace(plan, timing=HASTY)
    with ThreadPoolExecutor(1) as beside:
        run = beside.submit(run_owners, cast(Any, context), plan, tasks, lambda _: None, notes.append)
        try:
            yield run
        finally:
            eventually(lambda: run.done() or retired(plan))
        run.result()


def decide(counters: TopicHarness, first: int) -> None:
    """Five more commands of each counter are decided."""
    for subject in "ad":
        counters.send(*increments(5, subject, first))
    for partition in range(2):
        counters.await_outcomes(first + 5, partition)


def submission(counters: TopicHarness, partition: int) -> int | None:
    """The submission whose claim stands."""
    _, claim = counters.standing(partition)
    return None if claim is None else claim.submission


@pytest.mark.pins("one-outcome")
def test_lost_task_costs_its_neighbour_nothing(two: TopicHarness) -> None:
    lose = threading.Event()

    def dies(plan: Plan, share: Share, ends: threading.Event) -> Iterable[OwnerResult]:
        if share == (0,) and plan.submission == 0:
            assert lose.wait(60)
            raise RuntimeError("the worker is gone")
        return works(plan, share, ends)

    context, notes = Cluster(2, dies), list[str]()
    with driven(context, two.plan(once=False), 2, notes):
        eventually(lambda: two.owner(1))
        _, before = two.standing(1)
        lose.set()
        decide(two, 0)
        _, after = two.standing(1)
        assert before and after and after.n == before.n
        assert sorted(context.begun) == [(0, (0,)), (0, (1,)), (1, (0,))]
    assert notes == ["a task was lost (the worker is gone); submitting again in 0.01 s"]
    two.check_log()


@pytest.mark.pins("one-owner")
def test_slots_that_join_get_places(two: TopicHarness) -> None:
    context, notes = Cluster(1, works), list[str]()
    with driven(context, two.plan(once=False), 1, notes):
        decide(two, 0)
        context.slots = 2
        eventually(lambda: submission(two, 1) == 1)
        decide(two, 5)
        assert submission(two, 0) == 0
        assert context.begun == [(0, (0, 1)), (1, (1,))]
    assert notes == ["1 more slot: 1 partition move there"]
    two.check_log()


def test_without_lost_slots_it_begins_anew(two: TopicHarness) -> None:
    """A task that finds no slot has partitions that nobody owns."""

    def waits(plan: Plan, share: Share, ends: threading.Event) -> Iterable[OwnerResult]:
        if share != (0, 1):
            lost = share == (1,) and eventually(lambda: context.slots == 1 or ends.is_set())
            if not lost:
                assert ends.wait(60)
            raise RuntimeError("the worker is gone")
        return works(plan, share, ends)

    context, notes = Cluster(2, waits), list[str]()
    with driven(context, two.plan(once=False), 2, notes):
        eventually(lambda: len(context.begun) == 2)
        context.slots = 1
        decide(two, 0)
        assert context.begun[-1][1] == (0, 1)
    assert "2 tasks have 1 slot: beginning again with 1" in notes
    two.check_log()
