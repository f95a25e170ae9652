"""The last line of `.ci/run` sums up the results of all pytest runs."""

import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

PASSED = "....\n== 2445 passed, 3 skipped, 125 deselected in 401.10s (0:06:41) ==\n"
FAILED = """\
FAILED tests/a.py::b - 3 failed in c
2 failed, 118 passed, 5 skipped, 1 error in 600.00s (0:10:00)
make: *** [Makefile:1]
"""
STOPPED = "!!!!!!! KeyboardInterrupt !!!!!!!\n100 passed in 1500.00s (0:25:00)\n"
KILLED = "....\nmake: *** [Makefile:28: test] Interrupt\n"

REPEATED = "..\n2 passed, 8000 deselected in 9.00s\n"
TWO_FAILED = """\
=========================== short test summary info ============================
FAILED tests/a.py::test_a[1 and 2] - assert 1 == 2
FAILED tests/a.py::test_b
2 failed, 100 passed in 9.00s
"""
#: One of two tests failed twice: its teardown failed, too.
TEARDOWN_FAILED = """\
=========================== short test summary info ============================
ERROR tests/a.py::test_a[1 and 2] - Exception in thread
FAILED tests/a.py::test_a[1 and 2] - assert 1 == 2
FAILED tests/a.py::test_b
2 failed, 100 passed, 1 error in 9.00s
"""


def output_lines(folder: Path, call: str, *logs: str) -> list[str]:
    """Return the lines that a function of `.ci/closing` prints for these logs."""
    for number, log in enumerate(logs):
        (folder / f"{number}.log").write_text(log)
    program = f". {ROOT}/.ci/closing; {call}"
    return subprocess.check_output(["bash", "-c", program], cwd=folder, text=True).splitlines()


def closing_lines(folder: Path, *logs: str) -> list[str]:
    """Return the closing lines of a run that repeated no test."""
    return output_lines(folder, "closing no *.log", *logs)


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        ((PASSED,), "2445 passed, 0 failed, 3 skipped"),
        ((PASSED, PASSED), "4890 passed, 0 failed, 6 skipped"),
        ((PASSED, FAILED), "2563 passed, 3 failed, 8 skipped"),
        ((PASSED, KILLED), "2445 passed, 1 failed, 3 skipped"),
        ((STOPPED, PASSED), "2545 passed, 1 failed, 3 skipped"),
        ((PASSED, ""), "2445 passed, 1 failed, 3 skipped"),
    ],
)
def test_the_last_line_sums_up(tmp_path: Path, logs: tuple[str, ...], expected: str) -> None:
    *lines, total = closing_lines(tmp_path, *logs)
    assert total == expected and len(lines) >= len(logs)


def test_each_closing_line_is_shown(tmp_path: Path) -> None:
    assert closing_lines(tmp_path, PASSED, FAILED)[:2] == [PASSED.splitlines()[1], FAILED.splitlines()[1]]


@pytest.mark.parametrize(
    ("log", "expected"),
    [(PASSED, "no"), (FAILED, "yes"), ("4 failed, 100 passed in 9.00s\n", "no")],
)
def test_only_few_failed_tests_are_repeated(tmp_path: Path, log: str, expected: str) -> None:
    assert output_lines(tmp_path, "may_repeat *.log && echo yes || echo no", log) == [expected]


@pytest.mark.parametrize(
    ("repeated", "failed", "expected"),
    [
        (REPEATED, TWO_FAILED, "yes"),
        (REPEATED, TEARDOWN_FAILED, "yes"),
        ("1 failed, 1 passed in 9.00s\n", TWO_FAILED, "no"),
        ("1 passed in 9.00s\n", TWO_FAILED, "no"),
        (REPEATED, FAILED, "no"),  # the log lists no failure in a summary
        (REPEATED, TWO_FAILED + STOPPED, "no"),
        ("8000 deselected in 9.00s\n", KILLED, "no"),
    ],
)
def test_each_failed_test_must_pass_when_repeated(
    tmp_path: Path, repeated: str, failed: str, expected: str
) -> None:
    call = "all_passed 0.log 1.log && echo yes || echo no"
    assert output_lines(tmp_path, call, repeated, failed) == [expected]


@pytest.mark.parametrize("failed", [TWO_FAILED, TEARDOWN_FAILED])
def test_repeated_tests_count_as_passed(tmp_path: Path, failed: str) -> None:
    lines = output_lines(tmp_path, "closing yes *.log", failed)
    assert lines[-1] == "102 passed, 0 failed, 0 skipped"
