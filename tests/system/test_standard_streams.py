"""A closed stdout, or one with another encoding, ends no command."""

import os
import subprocess
import sys

import pytest

from tests.support import ROOT

pytestmark = pytest.mark.program


def run_in_shell(command: str, prefix: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run `cqrs` in a shell; `prefix` is the text before it."""
    return subprocess.run(
        ["sh", "-c", f'{prefix}"{sys.executable}" -m cqrs_cli {command}'],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        timeout=60,
    )


@pytest.mark.parametrize("redirections", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_change_nothing(redirections: str) -> None:
    assert run_in_shell(f"describe counter {redirections}").returncode == 0


def test_closed_pipe_under_help_is_141() -> None:
    output = run_in_shell("--help; echo $? >&2; } | true", "{ ").stderr
    assert output.endswith(b"141\n")


def test_characters_outside_the_encoding_are_escaped() -> None:
    program = (
        "from cqrs_cli.system.standard_streams import prepare_streams; prepare_streams(); print('\\u2192')"
    )
    process = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=True,
    )
    assert process.stdout == b"\\u2192\n"


def test_optimized_python_is_named() -> None:
    process = run_in_shell("status", PYTHONOPTIMIZE="1")
    assert (process.returncode, b"unset PYTHONOPTIMIZE" in process.stderr) == (3, True)


def test_warnings_end_no_command() -> None:
    assert run_in_shell("describe counter", PYTHONWARNINGS="error").returncode == 0
