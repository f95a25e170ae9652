"""The watch over a command whose `decide` does not end."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.monitored_thread import MonitoredThread
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.ownership.watchdog import CodeWatch

MINE = Claim(10, "m", 1, 1, 7, "topic", 4)
TIMING = Timing()


class Task:
    """A task whose clock a test advances. `left` has the claims that it replaced, `ends` its exit codes."""

    noun, doing, timing, mine = "command", "is being decided", TIMING, MINE

    def __init__(self, folder: Path) -> None:
        self.now, self.committed, self.position = 1000.0, MINE, 0
        self.folder = folder / "0"
        self.left: list[Claim | None] = []
        self.ends: list[int] = []
        self.said: list[str] = []
        self.deciding: Record | None = None
        self.watch = CodeWatch(cast(MonitoredThread, self))

    def clock(self) -> float:
        return self.now

    def exit(self, code: int) -> None:
        self.ends.append(code)

    def present(self) -> Record | None:
        return self.deciding

    def report(self, what: str, then: str) -> None:
        self.said.append(what)

    def leave(self, change: Callable[[int, Claim], Claim | None]) -> None:
        self.left.append(change(self.position, self.committed))

    def decides(self, offset: int, seconds: float) -> None:
        self.deciding = Record(offset, 0, b"a")
        until = self.now + seconds
        while self.now < until and not self.ends:
            self.now += 0.5
            self.watch.look()


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(tmp_path)


@pytest.mark.covers("endless-command")
def test_endless_command_ends_the_task(task: Task) -> None:
    task.decides(7, TIMING.decide_timeout)
    assert task.ends == [] and task.said == ["command 7 is being decided for 6 s"]
    task.decides(8, TIMING.decide_timeout + 2)
    assert task.ends == [os.EX_SOFTWARE]
    assert task.left[0] is not None and task.left[0].trial is not None
    assert task.left[0].trial.at == 8


def test_many_commands_are_not_one(task: Task) -> None:
    for offset in range(100):
        task.decides(offset, 2)
    assert task.ends == [] and task.said == []


def test_paused_task_judges_no_command(task: Task) -> None:
    task.decides(7, TIMING.decide_timeout - 1)
    task.now += 10 * TIMING.decide_timeout
    task.watch.look()
    task.deciding = None
    task.watch.look()
    assert task.ends == []


def test_command_committed_meanwhile_is_spared(task: Task) -> None:
    task.position = 8
    task.decides(7, TIMING.decide_timeout + 1)
    assert task.ends == [] and set(task.left) == {None}


def test_foreign_claim_is_left_alone(task: Task) -> None:
    task.committed = Claim(11, "other", 0, 0, 8, "topic", 4)
    task.decides(7, TIMING.decide_timeout + 1)
    assert task.left == [None] and task.ends == [os.EX_SOFTWARE]
