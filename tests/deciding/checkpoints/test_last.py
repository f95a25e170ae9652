"""The last checkpoint is written when an owner stops, and never delays the stop."""

import socket
import threading
from dataclasses import replace
from typing import Any

import pytest

from cqrs_cli.deciding.checkpoints.checkpointer import Checkpointer
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.errors import TakenOverError
from tests.deciding.checkpoints.checkpoint_runs import (
    checkpoint_plan,
    checkpoints_of,
    data_files,
    write_checkpoints,
)
from tests.support.commands import increment_commands
from tests.support.harness import SHORT_TIMEOUTS, TopicHarness
from tests.support.owners import run_plan, run_plan_task, running_owners
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.covers("checkpoint")]


@pytest.fixture
def ten(counters: TopicHarness) -> TopicHarness:
    """Ten decided commands in a checkpoint, and ten undecided commands. The next checkpoint is due in an hour."""
    counters.send(*increment_commands(10))
    run_plan(counters.plan())
    assert len(write_checkpoints(counters)) == 1
    counters.send(*increment_commands(10, first=10))
    return counters


def hourly(harness: TopicHarness, **options: Any) -> Plan:
    return checkpoint_plan(harness, checkpoint_every=3600.0, **options)


def kept(harness: TopicHarness) -> int:
    """Return the number of commands in the newest checkpoint."""
    newest = checkpoints_of(harness).newest()
    return 0 if newest is None else newest.positions.commands


def test_end_of_once_has_a_checkpoint(ten: TopicHarness) -> None:
    run_plan(hourly(ten))
    assert (kept(ten), len(data_files(ten))) == (20, 2)
    run_plan(hourly(ten))  # no command was decided since
    assert len(data_files(ten)) == 2


def test_stopped_service_has_a_checkpoint(ten: TopicHarness) -> None:
    with running_owners(replace(hourly(ten), targets=None)) as owner:
        eventually(lambda: ten.position_and_claim()[0] == 20)
        assert kept(ten) == 10
    assert (owner.error(), owner.notes(), kept(ten)) == (None, [], 20)


def test_loser_of_a_takeover_writes_none(ten: TopicHarness) -> None:
    with running_owners(replace(hourly(ten), targets=None)) as owner:
        eventually(lambda: ten.position_and_claim()[0] == 20)
        run_plan(ten.plan(machine="other"))
        assert isinstance(owner.error(), TakenOverError)
    assert kept(ten) == 10


def test_silent_store_delays_no_stop(ten: TopicHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        silent = f"s3://bucket/x?scheme=http&region=here&endpoint_override=127.0.0.1:{port}"
        timing = replace(SHORT_TIMEOUTS, retire_deadline=0.5)
        (ending,) = run_plan_task(replace(hourly(ten), checkpoints=silent, timing=timing))
    assert ending.error is None
    (note,) = ending.notes
    assert "no checkpoint of" in note and "has taken more than" in note


@pytest.mark.parametrize(("orphaned", "commands"), [(True, 10), (False, 20)])
def test_orphan_stops_without_one(ten: TopicHarness, orphaned: bool, commands: int) -> None:
    """A task whose parent process is gone writes no checkpoint. `finish` asks for this while it writes."""
    supervisor = DecidingSupervisor(hourly(ten), Partition("counter", 0), ten.aggregate, 0, threading.Event())
    supervisor.run()
    Checkpointer([supervisor]).write_last_checkpoints(60.0, lambda: not orphaned)
    assert kept(ten) == commands
