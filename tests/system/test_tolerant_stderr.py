"""A full disk under stderr ends no program, and changes no exit code."""

import subprocess
import sys
from pathlib import Path

import pytest

FULL_DEVICE = Path("/dev/full")

pytestmark = pytest.mark.skipif(not FULL_DEVICE.exists(), reason="needs /dev/full")


def exit_code(*arguments: str) -> int:
    with FULL_DEVICE.open("w") as full:
        return subprocess.run(
            [sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=full, check=False, timeout=60
        ).returncode


def test_exit_code_of_an_error_remains() -> None:
    assert exit_code("-m", "cqrs_cli", "status", "--nonsense") == 2


def test_lines_after_a_failure_are_harmless() -> None:
    program = (
        "import sys; from cqrs_cli.system.tolerant_stderr import ignore_stderr_errors; ignore_stderr_errors()\n"
        "for _ in range(10_000): print('a line of a log', file=sys.stderr, flush=True)"
    )
    assert exit_code("-c", program) == 0
