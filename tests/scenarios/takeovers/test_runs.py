"""Two `cqrs run` on the same topics, started by mistake or on purpose."""

import os
import signal
import subprocess
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import pytest

from cqrs_cli.kafka import offsets
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import parse_claim
from tests.support.project import LOCAL_MASTER, Project, await_decided, counter_increments
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

COUNTER = ("counter",)


def claim_owners(project: Project) -> set[tuple[str, int]]:
    """Return run and attempt of the committed claims."""
    commits = offsets.committed_offsets_now(
        project.connection, Topics("counter", project.prefix), range(4)
    ).values()
    return {(claim.run, claim.attempt) for commit in commits if (claim := parse_claim(commit.metadata))}


def claim_numbers(project: Project) -> list[int]:
    """Return the claim counter of each partition."""
    commits = offsets.committed_offsets_now(
        project.connection, Topics("counter", project.prefix), range(4)
    ).values()
    return [claim.number for commit in commits if (claim := parse_claim(commit.metadata))]


def await_takeover(project: Project, owners_before: set[tuple[str, int]]) -> None:
    eventually(lambda: len(claim_owners(project)) == 1 and claim_owners(project) != owners_before, within=90)


@pytest.mark.nightly
@pytest.mark.covers("one-owner")
def test_newer_run_takes_over_with_separate_state(project: Project, tmp_path: Path) -> None:
    project.cqrs("init", "counter")

    def run(folder: str) -> "AbstractContextManager[subprocess.Popen[str]]":
        return project.running("run", "counter", *LOCAL_MASTER, "--state-dir", str(tmp_path / folder))

    with run("one") as first:
        project.send(counter_increments(50))
        await_decided(project, 50, COUNTER)
        owners_before = claim_owners(project)
        with run("two") as second:
            _, output = first.communicate(timeout=90)
            assert first.returncode == 6 and "took over these topics" in output
            await_takeover(project, owners_before)
            numbers_before = claim_numbers(project)
            project.send(counter_increments(50))
            await_decided(project, 100, COUNTER)
            assert all(
                number <= before_number + 1
                for number, before_number in zip(claim_numbers(project), numbers_before, strict=True)
            )
            owners_before = claim_owners(project)
            with run("one") as third:
                eventually(lambda: claim_owners(project) != owners_before, within=90)
                second.send_signal(signal.SIGTERM)
                second.communicate(timeout=90)
                assert second.returncode in (6, 143)
                await_takeover(project, owners_before)
                project.send(counter_increments(50))
                await_decided(project, 150, COUNTER)
                assert third.poll() is None
                third.send_signal(signal.SIGTERM)
                third.communicate(timeout=60)
                assert third.returncode == 143
    assert project.replay("counter").events == 150


@pytest.mark.covers("one-outcome")
def test_standbys_take_over_in_turn(project: Project, tmp_path: Path) -> None:
    """The active run is killed twice. A standby takes over each time, and no run ends with exit code 6."""
    project.cqrs("init", "counter")
    runs: list[subprocess.Popen[str]] = []

    def start_run(name: str) -> None:
        log = tmp_path / f"{name}.log"
        with log.open("wb") as log_file:
            state_option = ("--state-dir", str(tmp_path / name))
            runs.append(
                project.start_logging(log_file, "run", "counter", "--standby", *LOCAL_MASTER, *state_option)
            )
        eventually(lambda: "in standby mode" in log.read_text() or len(runs) == 1, within=90)

    try:
        start_run("one")
        project.send(counter_increments(50))
        await_decided(project, 50, COUNTER)
        for number, name in enumerate(("two", "three")):
            start_run(name)
            owners_before = claim_owners(project)
            os.killpg(runs[-2].pid, signal.SIGKILL)
            await_takeover(project, owners_before)
            project.send(counter_increments(50))
            await_decided(project, 100 + 50 * number, COUNTER)
        assert runs[-1].poll() is None
    finally:
        for run in runs:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait(30)
    assert project.replay("counter").events == 150
