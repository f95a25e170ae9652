"""A command kills its worker: detection finds the command, only this command fails, and all others are decided."""

import re
from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.ownership.poison_detection.attempts import ATTEMPTS
from tests.support.deadly_commands import (
    SHORT_BACKOFF,
    ProcessRun,
    check_outcomes,
    check_trap_project,
    step_command,
    trap_harness,
    trap_lines,
    write_trap_aggregate,
)
from tests.support.harness import TopicHarness
from tests.support.project import Project

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

#: The most workers that one deadly command kills: one with the largest batch, one with a part of this batch,
#: `ATTEMPTS` with the command alone, and one more if the part began with other commands.
MAX_LOST_PROCESSES = 3 + ATTEMPTS

PAUSE_TEXT = re.compile(r"resubmitting in ([\d.]+) s")


@pytest.fixture
def harness(
    connection: Connection, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> TopicHarness:
    """An aggregate with two partitions, which one process owns. Any key may be on any partition."""
    monkeypatch.setenv("CQRS_PARTITIONER", "none")
    return trap_harness(connection, prefix, tmp_path)


@pytest.mark.covers("deadly-command")
@pytest.mark.parametrize(
    ("trap", "offset"),
    [
        pytest.param("exit", 0, marks=pytest.mark.nightly),
        pytest.param("segfault", 300, marks=pytest.mark.nightly),
        ("kill", 40),
    ],
)
def test_only_the_deadly_command_fails(harness: TopicHarness, trap: str, offset: int) -> None:
    steps = [step_command(f"a-{n}", 0) for n in range(400)]
    steps[offset:offset] = [step_command("deadly", 0, trap)]
    harness.send(*steps, *(step_command(f"b-{n}", 1) for n in range(300)))
    process_run = ProcessRun()
    results = process_run.run(harness.plan(timing=SHORT_BACKOFF))
    assert (results.total("accepted"), results.total("failed")) == (700, 1)
    assert ATTEMPTS < process_run.lost_processes <= MAX_LOST_PROCESSES
    check_outcomes(harness, (401, 300), {"deadly": f"the worker died on it {ATTEMPTS} times"})
    pauses = [float(match[1]) for note in process_run.notes if (match := PAUSE_TEXT.search(note))]
    assert pauses == sorted(pauses) and pauses[0] < pauses[-1]
    assert any(f"trap partition 0: command {offset} is decided alone" in note for note in process_run.notes)
    assert any(f"offset {offset} failed: the worker died on it" in note for note in process_run.notes)
    assert [harness.position_and_claim(partition)[1].suspects for partition in range(2)] == [None, None]  # type: ignore[union-attr]


@pytest.mark.nightly
@pytest.mark.covers("deadly-command")
def test_deadly_commands_fail_one_by_one(harness: TopicHarness) -> None:
    steps = [step_command(f"a-{n}", 0, "exit" if n in (5, 6) else "") for n in range(10)]
    harness.send(*steps, *(step_command(f"b-{n}", 1) for n in range(10)))
    process_run = ProcessRun()
    process_run.run(harness.plan(timing=SHORT_BACKOFF))
    message = f"the worker died on it {ATTEMPTS} times"
    check_outcomes(harness, (10, 10), {"a-5": message, "a-6": message})
    assert process_run.lost_processes <= MAX_LOST_PROCESSES + ATTEMPTS


@pytest.mark.spark
@pytest.mark.covers("deadly-command")
def test_spark_worker_dies_of_one_command(project: Project) -> None:
    """Of 400 commands on Spark, only the command that causes a segmentation fault fails."""
    write_trap_aggregate(project.folder / "aggregates")
    project.cqrs("init", "trap")
    project.send(trap_lines("i", 400, {123: "segfault"}))
    summary = project.json("run", "trap", "--once", "--master", "local[2]")
    assert (summary["accepted"], summary["failed"]) == (399, 1)
    check_trap_project(project, {f"i-{n}" for n in range(400)}, {"i-123"})
