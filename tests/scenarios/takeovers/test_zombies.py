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
SHORT_CHANGE_LIMIT = Timing(
    idle_check_interval=0.1, inconsistency_timeout=0.0, shard_limits=Limits(change=0.5)
)


@pytest.fixture
def lagging_bank(single_bank: TopicHarness) -> TopicHarness:
    """Bank accounts on one partition: 200 decided commands and 500 undecided commands."""
    commands = list(mixed_commands(700))
    single_bank.send(*commands[:200])
    run_plan(single_bank.plan())
    single_bank.send(*commands[200:])
    return single_bank


def pause_until_transaction_aborts(lagging_bank: TopicHarness) -> OwnerProcess:
    paused_owner = OwnerProcess(
        lagging_bank.plan(), IN_A_TRANSACTION, batch_limit=50, apply_every=150, transaction_timeout=TIMEOUT
    )
    eventually(paused_owner.is_paused)
    assert lagging_bank.transaction_state() == "Ongoing"
    eventually(lambda: lagging_bank.transaction_state() == "CompleteAbort")
    return paused_owner


def end_offsets(lagging_bank: TopicHarness) -> list[int]:
    kinds: list[Kind] = ["events", "outcomes", "dead-letters"]
    return [lagging_bank.stable_end(kind) for kind in kinds]


@pytest.mark.covers("one-owner")
def test_a_paused_owner_writes_nothing_late(
    lagging_bank: TopicHarness,
) -> None:
    paused_owner = pause_until_transaction_aborts(lagging_bank)
    run_plan(lagging_bank.plan())
    old_ends = end_offsets(lagging_bank)
    paused_owner.signal(signal.SIGCONT)
    assert isinstance(paused_owner.error(), TakenOverError)
    assert end_offsets(lagging_bank) == old_ends  # not even a marker
    lagging_bank.check()


@pytest.mark.covers("one-owner")
def test_a_paused_owner_without_rival_continues(lagging_bank: TopicHarness) -> None:
    paused_owner = pause_until_transaction_aborts(lagging_bank)
    owner = lagging_bank.owning_run()
    paused_owner.signal(signal.SIGCONT)
    assert paused_owner.error() is None
    assert lagging_bank.owning_run() == owner
    lagging_bank.check()


def test_pause_is_not_a_stuck_call(lagging_bank: TopicHarness) -> None:
    clock, exit_codes = [time.monotonic()], list[int]()
    plan = lagging_bank.plan()
    stuck = plan.timing.stuck_shard_timeout
    owner = DecidingSupervisor(
        plan, Partition("bank_account", 0), lagging_bank.aggregate, 0, threading.Event()
    )
    owner.clock, owner.exit = lambda: clock[0], exit_codes.append
    owner.store = cast(Store, SimpleNamespace(seconds_waiting_for_lock=stuck + 1))

    def check_for(seconds: float) -> None:
        deadline = clock[0] + seconds
        while not exit_codes and clock[0] < deadline:
            clock[0] += 0.5
            owner.end_if_stuck()

    clock[0] += 100 * stuck
    check_for(stuck - 1)
    assert exit_codes == []
    check_for(2)
    assert exit_codes == [os.EX_SOFTWARE]


def test_overdue_call_ends_the_process(lagging_bank: TopicHarness) -> None:
    """No librdkafka timeout ends the call, and its thread cannot be interrupted.

    After a pause it gets time to return.
    """
    clock, exit_codes = [time.monotonic()], list[int]()
    plan = lagging_bank.plan()
    owner = DecidingSupervisor(
        plan, Partition("bank_account", 0), lagging_bank.aggregate, 0, threading.Event()
    )
    owner.clock, owner.exit = lambda: clock[0], exit_codes.append
    writer = SimpleNamespace(overdue_seconds=plan.timing.overdue_timeout - 1)
    owner.session = cast(Session[Any], SimpleNamespace(writer=writer))

    def check_for(seconds: float) -> list[int]:
        deadline = clock[0] + seconds
        while not exit_codes and clock[0] < deadline:
            clock[0] += 0.5
            owner.end_if_stuck()
        return exit_codes

    assert check_for(50) == []
    clock[0] += 2 * plan.timing.pause_threshold
    writer.overdue_seconds += 2 * plan.timing.pause_threshold
    assert check_for(plan.timing.pause_threshold) == []
    assert check_for(1) == [os.EX_SOFTWARE]


def test_idle_owner_uses_short_request_timeout(lagging_bank: TopicHarness) -> None:
    """The group's coordinator may be lost.

    A short request timeout lets the next owner start once another is elected.
    """
    timeouts = list[float]()

    class RecordingSession(OwnerSession):
        def read_commit(self, client: Consumer, timeout: float = REQUEST_TIMEOUT) -> GroupCommit:
            timeouts.append(timeout)
            return super().read_commit(client, timeout)

    plan, partition = lagging_bank.plan(), Partition("bank_account", 0)
    with (
        RecordingSession(plan, partition, plan.claim(partition, 0), 1) as session,
        suppress(ClaimLost, LaterClaim),
    ):
        session.check_claim()
    assert timeouts == [COORDINATOR_TIMEOUT]


@pytest.mark.covers("state-is-events")
def test_shard_stopped_mid_change_is_replaced(lagging_bank: TopicHarness) -> None:
    paused_owner = OwnerProcess(lagging_bank.plan(), IN_A_CHANGE, batch_limit=50, apply_every=150)
    eventually(paused_owner.is_paused)
    (result,) = run_plan_task(lagging_bank.plan(timing=SHORT_CHANGE_LIMIT))
    assert result.error is None
    assert "a stopped process holds its lock in the middle of a change" in result.notes[0]
    lagging_bank.check()
    paused_owner.signal(signal.SIGCONT)
    assert isinstance(paused_owner.error(), TakenOverError)
    lagging_bank.check()
    assert [path.name.split(".")[1] for path in lagging_bank.shard_path().parent.glob("0.*")] == [
        quarantined.name.split(".")[1]
        for quarantined in lagging_bank.shard_path().parent.glob("0.aside-*-a-stopped-process*")
    ]


@contextmanager
def change_in_progress(shard: Path) -> Iterator[None]:
    """Another process is in the middle of a change to the shard while the block lasts."""
    code = f"import lmdb; txn = lmdb.open({str(shard)!r}).begin(write=True); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin and process.stdout
        assert process.stdout.readline() == "\n"
        yield
        process.kill()


def test_a_stuck_shard_ends_its_owner(lagging_bank: TopicHarness) -> None:
    owner = OwnerProcess(lagging_bank.plan(once=False), stuck_shard_timeout=3.0)
    eventually(lambda: len(lagging_bank.outcomes()) == 700)
    with change_in_progress(lagging_bank.shard_path()):
        lagging_bank.send(*list(mixed_commands(800))[700:])
        assert owner.exited_by_watchdog()
        run_plan(lagging_bank.plan(timing=SHORT_CHANGE_LIMIT))
        lagging_bank.check()
