"""Runs in a thread of the test's own, of which some stand by for others."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.ownership.standby import Heart
from cqrs_cli.ownership.standing import Standings
from tests.support.harness import IMPATIENT, TopicHarness
from tests.support.owners import at_work

#: Seconds of silence after which they take over.
AFTER = 0.5

#: The same where a run must not be taken over, also on a machine that is so busy that its beats come late.
LONG_AFTER = 4.0


def standing_by(counters: TopicHarness, machine: str, after: float = AFTER) -> Plan:
    return counters.plan(once=False, machine=machine, timing=replace(IMPATIENT, standby_after=after))


def has_claimed(plan: Plan, reader: Standings[Partition]) -> bool:
    """True if the run is the last to have claimed the partition. A commit that a killed one left is not waited for."""
    return any(one.claim is not None and one.claim.run == plan.run for one in reader.look().values())


@contextmanager
def beating(counters: TopicHarness, plan: Plan) -> Iterator[DecidingSupervisor]:
    """A run whose driver shows that it lives, while it has claimed the partition."""

    with Standings(plan.connection, plan.seats()) as reader:
        heart = Heart(
            plan.connection, plan.run, plan.seats().values(), AFTER, partial(has_claimed, plan, reader)
        )
        with heart, silent(counters, plan) as run:
            yield run


@contextmanager
def silent(counters: TopicHarness, plan: Plan) -> Iterator[DecidingSupervisor]:
    """A run whose driver shows nothing."""
    stopping = threading.Event()
    run = DecidingSupervisor(plan, plan.partitions()[0], counters.aggregate, 0, stopping)
    with at_work(run.run, stopping):
        yield run
