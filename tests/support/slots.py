"""A run on a Spark whose slots come and go, in this process."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from cqrs_cli.deciding.plan import OwnerResult, Plan
from cqrs_cli.deciding.retire import retire
from cqrs_cli.errors import TakenOverError
from cqrs_cli.jobs.run import run_owners
from cqrs_cli.ownership.dealing import Share
from cqrs_cli.runs.snapshot import Snapshot
from cqrs_cli.runs.task import own
from tests.support.driver import Context
from tests.support.harness import IMPATIENT
from tests.support.waiting import eventually

_HASTY = replace(IMPATIENT, first_backoff=0.01, progress_interval=0.05, spread_every=0.05, slotless=0.2)

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


def retired(plan: Plan) -> bool:
    retire(plan)
    return False


@contextmanager
def driven(
    context: Context, plan: Plan, tasks: int, notes: list[str], **times: Any
) -> Iterator["Future[Snapshot]"]:
    """A run at work, with these `times`; it is retired at the end of the block, if no later run has taken it over."""
    plan = replace(plan, timing=replace(_HASTY, **times))
    with ThreadPoolExecutor(1) as beside:
        run = beside.submit(run_owners, cast(Any, context), plan, tasks, lambda _: None, notes.append)
        try:
            yield run
        finally:
            eventually(lambda: run.done() or retired(plan))
        assert isinstance(run.exception(), TakenOverError | None)
