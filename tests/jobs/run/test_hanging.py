"""The watch over a command that does not end."""

import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding import hanging
from cqrs_cli.deciding.hanging import DecideWatch
from cqrs_cli.deciding.supervisor import Supervisor
from cqrs_cli.ownership import watchdog as watch
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.timing import Timing

MINE = Claim(10, "m", 1, 1, 7, "topic", 4)
TIMING = Timing()


class Task:
    """A task whose clock a test moves; `left` are the claims that it leaves, `ends` its exit codes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Any) -> None:
        self.clock, self.committed, self.position = 1000.0, MINE, 0
        self.left: list[Claim | None] = []
        self.ends: list[int] = []
        self.said: list[str] = []
        monkeypatch.setattr(watch, "time", SimpleNamespace(monotonic=lambda: self.clock))
        monkeypatch.setattr(hanging, "leave_claim", self._leave)
        monkeypatch.setattr(os, "_exit", self.ends.append)
        self.batch = SimpleNamespace(deciding=None)
        supervisor = SimpleNamespace(
            timing=TIMING,
            plan=SimpleNamespace(shard=lambda _: folder / "0"),
            partition=0,
            mine=MINE,
            owner=SimpleNamespace(session=SimpleNamespace(batch=self.batch)),
            report=lambda what, then: self.said.append(str(what)),
        )
        self.watch = DecideWatch(cast(Supervisor, supervisor))

    def _leave(self, _: object, __: object, change: Callable[[int, Claim], Claim | None]) -> None:
        self.left.append(change(self.position, self.committed))

    def decides(self, offset: int, seconds: float) -> None:
        self.batch.deciding = Record(offset, 0, b"a")
        until = self.clock + seconds
        while self.clock < until and not self.ends:
            self.clock += 0.5
            self.watch.look()


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Task:
    return Task(monkeypatch, tmp_path)


@pytest.mark.pins("endless-command")
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
    task.clock += 10 * TIMING.decide_timeout
    task.watch.look()
    task.batch.deciding = None
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
