"""An owner is paused for longer than all timeouts, at the most dangerous points, and wakes up."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import Consumer

from cqrs_cli.deciding.measures import Measures
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT
from cqrs_cli.kafka.offsets import GroupCommit
from cqrs_cli.kafka.topics.topics import Kind
from cqrs_cli.kafka.transactional import COORDINATOR_TIMEOUT
from cqrs_cli.ownership.session import Session
from cqrs_cli.ownership.signals import ClaimLost, LaterClaim
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.state.limits import Limits
from cqrs_cli.state.store import Store
from tests.support.commands import mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, run_plan_task
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

#: In the middle of the second batch: the broker has all of its records, and the transaction is open.
IN_A_TRANSACTION = "flush.after:3:stop"
IN_A_CHANGE = "apply.inside:3:stop"

#: Transaction timeout in seconds. The broker aborts the transaction within a second or two after it.
TIMEOUT = 2.0

#: An owner that soon gives up a shard that another process is changing.
HASTY = Timing(idle_check_interval=0.1, inconsistency_timeout=0.0, shard_limits=Limits(change=0.5))


@pytest.fixture
def behind(single_bank: TopicHarness) -> TopicHarness:
    """Bank accounts on one partition: 200 decided commands and 500 undecided commands."""
    commands = list(mixed_commands(700))
    single_bank.send(*commands[:200])
    run_plan(single_bank.plan())
    single_bank.send(*commands[200:])
    return single_bank


def paused_until_its_transaction_is_aborted(behind: TopicHarness) -> OwnerProcess:
    sleeper = OwnerProcess(
        behind.plan(), IN_A_TRANSACTION, batch_limit=50, apply_every=150, transaction_timeout=TIMEOUT
    )
    eventually(sleeper.is_paused)
    assert behind.transaction_state() == "Ongoing"
    eventually(lambda: behind.transaction_state() == "CompleteAbort")
    return sleeper


def ends(behind: TopicHarness) -> list[int]:
    kinds: list[Kind] = ["events", "outcomes", "dead-letters"]
    return [behind.stable_end(kind) for kind in kinds]


@pytest.mark.covers("one-owner")
def test_a_paused_owner_writes_nothing_late(
    behind: TopicHarness,
) -> None:
    sleeper = paused_until_its_transaction_is_aborted(behind)
    run_plan(behind.plan())
    before = ends(behind)
    sleeper.signal(signal.SIGCONT)
    assert isinstance(sleeper.error(), TakenOverError)
    assert ends(behind) == before  # not even a marker
    behind.check()


@pytest.mark.covers("one-owner")
def test_a_paused_owner_without_rival_continues(behind: TopicHarness) -> None:
    sleeper = paused_until_its_transaction_is_aborted(behind)
    owner = behind.owning_run()
    sleeper.signal(signal.SIGCONT)
    assert sleeper.error() is None
    assert behind.owning_run() == owner
    behind.check()


def test_pause_is_not_a_stuck_call(behind: TopicHarness) -> None:
    clock, ends = [time.monotonic()], list[int]()
    plan = behind.plan()
    stuck = plan.timing.stuck_shard_timeout
    owner = DecidingSupervisor(plan, Partition("bank_account", 0), behind.aggregate, 0, threading.Event())
    owner.clock, owner.exit = lambda: clock[0], ends.append
    owner.store = cast(Store, SimpleNamespace(seconds_waiting_for_lock=stuck + 1))

    def looks_for(seconds: float) -> None:
        until = clock[0] + seconds
        while not ends and clock[0] < until:
            clock[0] += 0.5
            owner.end_if_stuck()

    clock[0] += 100 * stuck
    looks_for(stuck - 1)
    assert ends == []
    looks_for(2)
    assert ends == [os.EX_SOFTWARE]


def test_overdue_call_ends_the_process(behind: TopicHarness) -> None:
    """No librdkafka timeout ends the call, and its thread cannot be interrupted.

    After a pause it gets time to return.
    """
    clock, ends = [time.monotonic()], list[int]()
    plan = behind.plan()
    owner = DecidingSupervisor(plan, Partition("bank_account", 0), behind.aggregate, 0, threading.Event())
    owner.clock, owner.exit = lambda: clock[0], ends.append
    writer = SimpleNamespace(overdue=plan.timing.overdue_timeout - 1)
    owner.session = cast(Session[Any], SimpleNamespace(writer=writer))

    def looks_for(seconds: float) -> list[int]:
        until = clock[0] + seconds
        while not ends and clock[0] < until:
            clock[0] += 0.5
            owner.end_if_stuck()
        return ends

    assert looks_for(50) == []
    clock[0] += 2 * plan.timing.pause_threshold
    writer.overdue += 2 * plan.timing.pause_threshold
    assert looks_for(plan.timing.pause_threshold) == []
    assert looks_for(1) == [os.EX_SOFTWARE]


def test_idle_owner_asks_briefly(behind: TopicHarness) -> None:
    """The group's coordinator may be lost.

    A short request timeout lets the next owner start once another is elected.
    """
    timeouts = list[float]()

    class Asking(OwnerSession):
        def read_commit(self, client: Consumer, timeout: float = REQUEST_TIMEOUT) -> GroupCommit:
            timeouts.append(timeout)
            return super().read_commit(client, timeout)

    plan, place = behind.plan(), Partition("bank_account", 0)
    with Asking(plan, place, plan.claim(place, 0), 1, Measures()) as session, suppress(ClaimLost, LaterClaim):
        session.check_claim()
    assert timeouts == [COORDINATOR_TIMEOUT]


@pytest.mark.covers("state-is-events")
def test_shard_stopped_mid_change_is_replaced(behind: TopicHarness) -> None:
    sleeper = OwnerProcess(behind.plan(), IN_A_CHANGE, batch_limit=50, apply_every=150)
    eventually(sleeper.is_paused)
    (verdict,) = run_plan_task(behind.plan(timing=HASTY))
    assert verdict.error is None
    assert "a stopped process holds its lock in the middle of a change" in verdict.notes[0]
    behind.check()
    sleeper.signal(signal.SIGCONT)
    assert isinstance(sleeper.error(), TakenOverError)
    behind.check()
    assert [path.name.split(".")[1] for path in behind.shard_path().parent.glob("0.*")] == [
        aside.name.split(".")[1] for aside in behind.shard_path().parent.glob("0.aside-*-a-stopped-process*")
    ]


@contextmanager
def in_a_change(shard: Path) -> Iterator[None]:
    """Another process is in the middle of a change to the shard while the block lasts."""
    code = f"import lmdb; txn = lmdb.open({str(shard)!r}).begin(write=True); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == "\n"
        yield
        process.kill()


def test_a_stuck_shard_ends_its_owner(behind: TopicHarness) -> None:
    owner = OwnerProcess(behind.plan(once=False), stuck_shard_timeout=3.0)
    eventually(lambda: len(behind.outcomes()) == 700)
    with in_a_change(behind.shard_path()):
        behind.send(*list(mixed_commands(800))[700:])
        assert owner.exited_by_watchdog()
        run_plan(behind.plan(timing=HASTY))
        behind.check()
