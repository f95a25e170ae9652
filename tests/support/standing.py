"""Runs in a thread of the test's own, of which some stand by for others."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from cqrs_cli.deciding.plan import Plan
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.ownership.standby import Heart
from tests.support.harness import IMPATIENT, TopicHarness
from tests.support.owners import at_work

#: Seconds of silence after which they take over.
AFTER = 0.5

#: The same where a run must not be taken over, also on a machine that is so busy that its beats come late.
LONG_AFTER = 4.0


def standing_by(counters: TopicHarness, machine: str, after: float = AFTER) -> Plan:
    return counters.plan(once=False, machine=machine, timing=replace(IMPATIENT, standby_after=after))


@contextmanager
def beating(counters: TopicHarness, plan: Plan) -> Iterator[DecidingSupervisor]:
    """A run whose driver shows that it lives, while it has claimed the partition."""

    def is_at_work() -> bool:
        return counters.owner() == plan.run

    heart = Heart(plan.connection, plan.run, plan.seats().values(), AFTER, is_at_work)
    with heart, silent(counters, plan) as run:
        yield run


@contextmanager
def silent(counters: TopicHarness, plan: Plan) -> Iterator[DecidingSupervisor]:
    """A run whose driver shows nothing."""
    stopping = threading.Event()
    run = DecidingSupervisor(plan, plan.partitions()[0], counters.aggregate, 0, stopping)
    with at_work(run.run, stopping):
        yield run
