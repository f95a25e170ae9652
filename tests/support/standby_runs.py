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
from tests.support.harness import SHORT_TIMEOUTS, TopicHarness
from tests.support.owners import running_in_thread

#: Seconds of silence after which a standby takes over.
STANDBY_TIMEOUT = 0.5

#: Seconds for tests in which a run must not be taken over, even if a busy machine delays its heartbeats.
LONG_STANDBY_TIMEOUT = 4.0


def standby_plan(counters: TopicHarness, machine: str, timeout: float = STANDBY_TIMEOUT) -> Plan:
    return counters.plan(once=False, machine=machine, timing=replace(SHORT_TIMEOUTS, standby_timeout=timeout))


def has_claimed(plan: Plan, reader: ClaimReader[Partition]) -> bool:
    """True if the partition's latest committed claim is the run's. A claim in a transaction that a killed run left open
    is not waited for.
    """
    return any(
        committed.claim is not None and committed.claim.run == plan.run
        for committed in reader.read_claims().values()
    )


@contextmanager
def running_with_heartbeats(counters: TopicHarness, plan: Plan) -> Iterator[DecidingSupervisor]:
    """Run an owner whose driver sends heartbeats while the run has claimed the partition."""

    with ClaimReader(plan.connection, plan.claim_slots()) as reader:
        heartbeat_sender = HeartbeatSender(
            plan.connection,
            plan.run,
            plan.claim_slots().values(),
            STANDBY_TIMEOUT,
            partial(has_claimed, plan, reader),
        )
        with heartbeat_sender, running_without_heartbeats(counters, plan) as supervisor:
            yield supervisor


@contextmanager
def running_without_heartbeats(counters: TopicHarness, plan: Plan) -> Iterator[DecidingSupervisor]:
    """Run an owner whose driver sends no heartbeats."""
    stopping = threading.Event()
    supervisor = DecidingSupervisor(plan, plan.partitions()[0], counters.aggregate, 0, stopping)
    with running_in_thread(supervisor.run, stopping):
        yield supervisor
