import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.system import process
from tests.support.waiting import eventually


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[int]:
    """A process that ends by itself in a minute."""
    pid = process.spawn(["sleep", "60"], tmp_path, "log", os.environ)
    yield pid
    if process.born(pid):
        os.kill(pid, signal.SIGKILL)


def test_a_process_keeps_its_birth(sleeper: int) -> None:
    assert process.born(sleeper) == process.born(sleeper) is not None


def test_nobody_is_born_under_a_free_id() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert process.born(ended.pid) is None


def test_a_dead_child_that_waits_for_its_parent_counts_as_gone() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        child.kill()
        eventually(lambda: process.born(child.pid) is None)


def test_a_spawned_process_is_nobodys_child_and_in_a_session_of_its_own(sleeper: int) -> None:
    assert os.getsid(sleeper) != os.getsid(0)
    with pytest.raises(ChildProcessError):
        os.waitpid(sleeper, os.WNOHANG)


def test_output_goes_to_the_end_of_the_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")
    process.spawn(["sh", "-c", "echo out; echo err >&2"], tmp_path, "log", os.environ)
    eventually(lambda: (tmp_path / "log").read_text() == "before\nout\nerr\n")


def test_end_waits_until_it_is_gone(sleeper: int) -> None:
    process.end(sleeper, process.born(sleeper) or "", patience=10)
    assert process.born(sleeper) is None


def test_what_ignores_the_polite_signal_is_killed(tmp_path: Path) -> None:
    stubborn = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    pid = process.spawn(["sh", "-c", stubborn], tmp_path, "log", os.environ)
    eventually(lambda: (tmp_path / "log").read_text())
    process.end(pid, process.born(pid) or "", patience=0.3)
    assert process.born(pid) is None


def test_another_process_under_the_same_id_is_left_alone(sleeper: int) -> None:
    process.end(sleeper, "born at another time", patience=1)
    assert process.born(sleeper) is not None
