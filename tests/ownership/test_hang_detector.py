"""The detection of a command whose `decide` does not end."""

import os
from collections.abc import Callable
from typing import cast

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.monitored_thread import MonitoredThread
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.ownership.watchdog import HangDetector

OWN_CLAIM = Claim(10, "m", 1, 1, 7, "topic", 4)
TIMING = Timing()


class FakeTask:
    """A task whose clock a test advances. It records the claims that it commits, its exit codes and its reports."""

    noun, activity, timing, own_claim = "command", "is being decided", TIMING, OWN_CLAIM
    listeners = ()

    def __init__(self) -> None:
        self.time, self.committed, self.position = 1000.0, OWN_CLAIM, 0
        self.replacements: list[Claim | None] = []
        self.exit_codes: list[int] = []
        self.reports: list[str] = []
        self.deciding: Record | None = None
        self.detector = HangDetector(cast(MonitoredThread, self))

    def clock(self) -> float:
        return self.time

    def exit(self, code: int) -> None:
        self.exit_codes.append(code)

    def current_record(self) -> Record | None:
        return self.deciding

    def report(self, event: str, reaction: str) -> None:
        self.reports.append(event)

    def replace_claim(self, change: Callable[[int, Claim], Claim | None]) -> None:
        self.replacements.append(change(self.position, self.committed))

    def decide_for(self, offset: int, seconds: float) -> None:
        self.deciding = Record(offset, 0, b"a")
        until = self.time + seconds
        while self.time < until and not self.exit_codes:
            self.time += 0.5
            self.detector.check_current_record()


@pytest.fixture
def task() -> FakeTask:
    return FakeTask()


@pytest.mark.covers("endless-command")
def test_endless_command_ends_the_task(task: FakeTask) -> None:
    task.decide_for(7, TIMING.decide_timeout)
    assert task.exit_codes == [] and task.reports == ["command 7 is being decided for 6 s"]
    task.decide_for(8, TIMING.decide_timeout + 2)
    assert task.exit_codes == [os.EX_SOFTWARE]
    assert task.replacements[0] is not None and task.replacements[0].suspects is not None
    assert task.replacements[0].suspects.announced == 8


def test_many_fast_commands_are_no_timeout(task: FakeTask) -> None:
    for offset in range(100):
        task.decide_for(offset, 2)
    assert task.exit_codes == [] and task.reports == []


def test_paused_task_ends_no_command(task: FakeTask) -> None:
    task.decide_for(7, TIMING.decide_timeout - 1)
    task.time += 10 * TIMING.decide_timeout
    task.detector.check_current_record()
    task.deciding = None
    task.detector.check_current_record()
    assert task.exit_codes == []


def test_committed_command_does_not_time_out(task: FakeTask) -> None:
    task.position = 8
    task.decide_for(7, TIMING.decide_timeout + 1)
    assert task.exit_codes == [] and set(task.replacements) == {None}


def test_foreign_claim_is_not_replaced(task: FakeTask) -> None:
    task.committed = Claim(11, "other", 0, 0, 8, "topic", 4)
    task.decide_for(7, TIMING.decide_timeout + 1)
    assert task.replacements == [None] and task.exit_codes == [os.EX_SOFTWARE]
