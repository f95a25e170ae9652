"""A `decide` does not end: its worker is killed, its command fails, and all others are decided."""

import signal
from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.ownership.poison_detection.attempts import ATTEMPTS
from cqrs_cli.status.aggregates import aggregate_statuses
from cqrs_cli.telemetry.status_file import SlowCommand
from tests.support.deadly_commands import (
    SHORT_BACKOFF,
    ProcessRun,
    check_outcomes,
    step_command,
    trap_harness,
)
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture
def harness(
    connection: Connection, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> TopicHarness:
    """Steps on two partitions that one process owns. Any key may be on any partition."""
    monkeypatch.setenv("CQRS_PARTITIONER", "none")
    harness = trap_harness(connection, prefix, tmp_path)
    steps = [step_command(f"a-{n}", 0) for n in range(400)]
    harness.send(*(step_command(f"b-{n}", 1) for n in range(300)), *steps[:150])
    return harness


@pytest.mark.covers("endless-command")
def test_endless_command_fails_at_once(harness: TopicHarness) -> None:
    harness.send(step_command("endless", 0, "loop"), *(step_command(f"c-{n}", 0) for n in range(250)))
    process_run = ProcessRun(decide_timeout=2.0, slow_after=0.5)
    results = process_run.run(harness.plan(timing=SHORT_BACKOFF))
    assert (results.total("accepted"), results.total("failed"), process_run.lost_processes) == (700, 1, 1)
    check_outcomes(harness, (401, 300), {"endless": "it did not end within 2 s"})
    # The note may arrive after the result.
    eventually(lambda: any("command 150 fails: it did not end" in note for note in process_run.notes))


@pytest.mark.nightly
@pytest.mark.covers("endless-command")
def test_held_interpreter_counts_as_death(harness: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog kills a process whose C code never releases the interpreter, so that no thread can check."""
    harness.send(step_command("endless", 0, "hold"), *(step_command(f"c-{n}", 0) for n in range(250)))
    process_run = ProcessRun(decide_timeout=3.0)
    results = process_run.run(harness.plan(timing=SHORT_BACKOFF))
    assert (results.total("accepted"), results.total("failed")) == (700, 1)
    check_outcomes(harness, (401, 300), {"endless": f"the worker died on it {ATTEMPTS} times"})


def test_slow_command_is_named(harness: TopicHarness) -> None:
    harness.send(step_command("endless", 0, "loop"))
    owner = OwnerProcess(harness.plan(), slow_after=0.2)

    def slow_command(partition: int) -> SlowCommand | None:
        state = harness.folder / "state"
        return aggregate_statuses(harness.connection, harness.topics, state)[partition].slow_command

    eventually(lambda: slow_command(0) is not None)
    assert slow_command(1) is None and "command 150 is being decided for" in str(slow_command(0))
    owner.signal(signal.SIGKILL)
    assert owner.was_killed()
    assert slow_command(0) is None
