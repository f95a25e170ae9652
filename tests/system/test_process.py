import os
import signal
import subprocess
import sys
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
    if process.start_time(pid):
        os.kill(pid, signal.SIGKILL)


def test_start_time_of_a_process_is_stable(sleeper: int) -> None:
    assert process.start_time(sleeper) == process.start_time(sleeper) is not None


def test_unused_id_has_no_start_time() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert process.start_time(ended.pid) is None


def test_zombie_counts_as_gone() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        child.kill()
        eventually(lambda: process.start_time(child.pid) is None)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux reports the other threads of a process")
def test_zombie_with_threads_still_lives(tmp_path: Path) -> None:
    """A killed JVM can be in this state, and its last threads hold its ports."""
    program = (
        "import ctypes, threading; threading.Thread(target=threading.Event().wait).start(); "
        "print('ready', flush=True); ctypes.CDLL(None).pthread_exit(None)"
    )
    pid = process.spawn([sys.executable, "-c", program], tmp_path, "log", os.environ)
    start_time = process.start_time(pid)
    assert start_time is not None
    eventually(lambda: ") Z " in Path(f"/proc/{pid}/stat").read_text())
    assert process.start_time(pid) == start_time
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: process.start_time(pid) is None)


def test_spawned_process_has_own_session(sleeper: int) -> None:
    assert os.getsid(sleeper) != os.getsid(0)
    with pytest.raises(ChildProcessError):
        os.waitpid(sleeper, os.WNOHANG)


def test_output_is_appended_to_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("before\n")
    process.spawn(["sh", "-c", "echo out; echo err >&2"], tmp_path, "log", os.environ)
    eventually(lambda: (tmp_path / "log").read_text() == "before\nout\nerr\n")


def test_terminate_waits_for_the_end(sleeper: int) -> None:
    process.terminate(sleeper, process.start_time(sleeper) or "", timeout=10)
    assert process.start_time(sleeper) is None


def test_process_ignoring_sigterm_is_killed(tmp_path: Path) -> None:
    program = "trap '' TERM; echo ready; while :; do sleep 0.1; done"
    pid = process.spawn(["sh", "-c", program], tmp_path, "log", os.environ)
    eventually(lambda: (tmp_path / "log").read_text())
    process.terminate(pid, process.start_time(pid) or "", timeout=0.3)
    assert process.start_time(pid) is None


def test_reused_id_is_not_signalled(sleeper: int) -> None:
    process.terminate(sleeper, "born at another time", timeout=1)
    assert process.start_time(sleeper) is not None
