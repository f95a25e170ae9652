"""Runs in threads of the test, some of them in standby mode."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.ownership.committed_claims import ClaimReader
from cqrs_cli.ownership.standby import HeartbeatSender
from tests.support.harness import IMPATIENT, TopicHarness
from tests.support.owners import at_work

#: Seconds of silence after which a standby takes over.
AFTER = 0.5

#: Seconds for tests in which a run must not be taken over, even if a busy machine delays its heartbeats.
LONG_AFTER = 4.0


def standing_by(counters: TopicHarness, machine: str, after: float = AFTER) -> Plan:
    return counters.plan(once=False, machine=machine, timing=replace(IMPATIENT, standby_timeout=after))


def has_claimed(plan: Plan, reader: ClaimReader[Partition]) -> bool:
    """True if the run has the partition's latest claim. Does not wait for a pending commit of a killed run."""
    return any(
        claim.claim is not None and claim.claim.run == plan.run for claim in reader.read_claims().values()
    )


@contextmanager
def beating(counters: TopicHarness, plan: Plan) -> Iterator[DecidingSupervisor]:
    """Run an owner whose driver sends heartbeats while the run has claimed the partition."""

    with ClaimReader(plan.connection, plan.claim_slots()) as reader:
        heart = HeartbeatSender(
            plan.connection, plan.run, plan.claim_slots().values(), AFTER, partial(has_claimed, plan, reader)
        )
        with heart, silent(counters, plan) as run:
            yield run


@contextmanager
def silent(counters: TopicHarness, plan: Plan) -> Iterator[DecidingSupervisor]:
    """Run an owner whose driver sends no heartbeats."""
    stopping = threading.Event()
    run = DecidingSupervisor(plan, plan.partitions()[0], counters.aggregate, 0, stopping)
    with at_work(run.run, stopping):
        yield run
