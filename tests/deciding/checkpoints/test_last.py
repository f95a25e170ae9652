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
def harness(counters: TopicHarness) -> TopicHarness:
    """Ten decided commands in a checkpoint, and ten undecided commands. The next checkpoint is due in an hour."""
    counters.send(*increment_commands(10))
    run_plan(counters.plan())
    assert len(write_checkpoints(counters)) == 1
    counters.send(*increment_commands(10, first=10))
    return counters


def hourly_checkpoint_plan(harness: TopicHarness, **options: Any) -> Plan:
    return checkpoint_plan(harness, checkpoint_every=3600.0, **options)


def checkpointed_commands(harness: TopicHarness) -> int:
    """Return the number of commands in the newest checkpoint."""
    newest = checkpoints_of(harness).newest()
    return 0 if newest is None else newest.positions.commands


def test_once_run_ends_with_a_checkpoint(harness: TopicHarness) -> None:
    run_plan(hourly_checkpoint_plan(harness))
    assert (checkpointed_commands(harness), len(data_files(harness))) == (20, 2)
    run_plan(hourly_checkpoint_plan(harness))  # no command was decided since
    assert len(data_files(harness)) == 2


def test_stopped_run_writes_a_checkpoint(harness: TopicHarness) -> None:
    with running_owners(replace(hourly_checkpoint_plan(harness), end_offsets=None)) as owner:
        eventually(lambda: harness.position_and_claim()[0] == 20)
        assert checkpointed_commands(harness) == 10
    assert (owner.error(), owner.notes(), checkpointed_commands(harness)) == (None, [], 20)


def test_superseded_run_writes_no_checkpoint(harness: TopicHarness) -> None:
    with running_owners(replace(hourly_checkpoint_plan(harness), end_offsets=None)) as owner:
        eventually(lambda: harness.position_and_claim()[0] == 20)
        run_plan(harness.plan(machine="other"))
        assert isinstance(owner.error(), TakenOverError)
    assert checkpointed_commands(harness) == 10


def test_silent_store_delays_no_stop(harness: TopicHarness) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        silent_store = f"s3://bucket/x?scheme=http&region=here&endpoint_override=127.0.0.1:{port}"
        timing = replace(SHORT_TIMEOUTS, retire_deadline=0.5)
        (result,) = run_plan_task(
            replace(hourly_checkpoint_plan(harness), checkpoints=silent_store, timing=timing)
        )
    assert result.error is None
    (note,) = result.notes
    assert "no checkpoint of" in note and "has taken more than" in note


@pytest.mark.parametrize(("orphaned", "commands"), [(True, 10), (False, 20)])
def test_orphaned_task_writes_no_checkpoint(harness: TopicHarness, orphaned: bool, commands: int) -> None:
    """A task whose parent process is gone writes no checkpoint. `finish` asks for this while it writes."""
    supervisor = DecidingSupervisor(
        hourly_checkpoint_plan(harness), Partition("counter", 0), harness.aggregate, 0, threading.Event()
    )
    supervisor.run()
    Checkpointer([supervisor]).write_last_checkpoints(60.0, lambda: not orphaned)
    assert checkpointed_commands(harness) == commands
