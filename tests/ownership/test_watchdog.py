"""A task whose user code hangs is ended."""

import subprocess
import sys

import pytest


@pytest.mark.program
@pytest.mark.covers("endless-command")
def test_watchdog_starts_at_once() -> None:
    """The watchdog starts at once, because C code may hold the interpreter before any thread has checked."""
    code = "from cqrs_cli.ownership.watchdog import Watchdog; Watchdog(0.2); sum(range(10**15))"
    process = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, timeout=60)
    assert process.returncode == 1 and "Timeout" in process.stderr
