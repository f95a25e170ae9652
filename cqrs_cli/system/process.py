"""Processes that outlive the command that started them, identified by id and start time, since ids are reused."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

#: The shell starts the program in the background, prints its id and exits, so that the program is not a child of this
#: process: no signal of the terminal reaches it, and once dead it is not a zombie of a long-lived command.
_DETACH_SCRIPT = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'


def spawn(command: Sequence[str], folder: Path, log: str, environment: Mapping[str, str]) -> int:
    """Start a command in `folder`, in its own session, and return its process id. Output is appended to the file `log`.

    Raises `OSError` if the command cannot be started.
    """
    shell = ["/bin/sh", "-c", _DETACH_SCRIPT, "sh", log, *command]
    result = subprocess.run(
        shell,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    return int(result.stdout)


def start_time(pid: int) -> str | None:
    """Return the start time of a process as the system formats it; None if it does not exist or is a zombie."""
    return _start_time_linux(pid) if sys.platform == "linux" else _start_time_elsewhere(pid)


def terminate(pid: int, expected_start: str, timeout: float) -> None:
    """Send SIGTERM, after `timeout` seconds SIGKILL; return when the process is gone.

    `expected_start` is the start time of the process: a later process with the same id gets no signal.
    """
    if not _signal(pid, expected_start, signal.SIGTERM) or _wait_until_gone(pid, expected_start, timeout):
        return
    if _signal(pid, expected_start, signal.SIGKILL):
        _wait_until_gone(pid, expected_start, 10.0)


def _signal(pid: int, expected_start: str, signal_number: signal.Signals) -> bool:
    """Send a signal; return False if the process is gone."""
    if start_time(pid) != expected_start:
        return False
    try:
        os.kill(pid, signal_number)
    except ProcessLookupError:
        return False
    return True


def _wait_until_gone(pid: int, expected_start: str, timeout: float) -> bool:
    """Wait until the process is gone; return False after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while start_time(pid) == expected_start:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _start_time_linux(pid: int) -> str | None:
    """Return the boot id and the start in ticks since boot: after another boot, a pid may start at the same tick.

    The first thread of a killed program may be a zombie while other threads still end. The process counts as alive
    until all threads have ended, since its ports are taken until then.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()  # the name before it may contain blanks and brackets
    is_gone = state in "ZX" and int(fields[16]) <= 1  # threads: proc_pid_stat(5)
    return None if is_gone else f"{boot}:{fields[18]}"


def _start_time_elsewhere(pid: int) -> str | None:
    result = subprocess.run(["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True)
    state, _, start = result.stdout.strip().partition(" ")
    return None if result.returncode != 0 or state.startswith("Z") else start.strip()
