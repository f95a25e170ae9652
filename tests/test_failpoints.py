"""Failpoints: an environment variable arms one failpoint, and the code reaches every point of `observer.POINTS`."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli import failpoints, observer
from cqrs_cli.errors import ConfigurationError

PACKAGE = Path(failpoints.__file__).parent


@pytest.fixture(autouse=True)
def disarm_after_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Disarm the failpoint that a test armed."""
    yield
    monkeypatch.delenv(failpoints.VARIABLE, raising=False)
    failpoints.arm()


def arm(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(failpoints.VARIABLE, text)
    failpoints.arm()


def exit_code_after(text: str, *points: str) -> int:
    """Return the exit code of a process that passes these failpoints."""
    statements = ";".join(f"observer.reached({point!r})" for point in points)
    program = f"from cqrs_cli import failpoints, observer; failpoints.arm(); {statements}"
    environment = os.environ | {failpoints.VARIABLE: text}
    return subprocess.run([sys.executable, "-c", program], env=environment).returncode


def test_every_point_is_in_the_code() -> None:
    code = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "failpoints.py")
    points_in_code = re.findall(r"\b(?:reached|failpoints\.act_during)\(\s*\"([^\"]+)\"", code)
    assert set(points_in_code) == set(observer.POINTS)


def test_unset_variable_changes_nothing() -> None:
    assert failpoints.environment() == {}
    for point in observer.POINTS:
        observer.reached(point)


@pytest.mark.program
def test_named_point_acts_once() -> None:
    assert exit_code_after("fence.after:2:kill", "fence.after", "claim.after") == 0
    assert (
        exit_code_after("fence.after:2:kill", "fence.after", "claim.after", "fence.after") == -signal.SIGKILL
    )


@pytest.mark.program
def test_first_process_acts_and_writes_its_id(tmp_path: Path) -> None:
    fault = f"fence.after:1:kill@{tmp_path / 'process_id'}"
    assert exit_code_after(fault, "fence.after") == -signal.SIGKILL
    assert int((tmp_path / "process_id").read_text()) > 0
    assert exit_code_after(fault, "fence.after") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["process_id"]


def test_flush_needs_an_armed_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    flushed: list[str] = []
    (tmp_path / "other_process").write_text("another process was here")
    arm(monkeypatch, f"produce.first:2:kill@{tmp_path / 'other_process'}")
    observer.reached("produce.first", flush=lambda: flushed.append("first"))
    observer.reached("produce.first", flush=lambda: flushed.append("second"))
    assert flushed == ["second"]


@pytest.mark.parametrize(
    "text",
    [
        *("fence", "fence.after", "fence.after:kill", "fence.after:0:kill", "nowhere:1:kill"),
        *("fence.after:1:die", "fence.after:1:kill:now", "fence.after:1:wait", "fence.after:1:wait@"),
    ],
)
def test_invalid_variables_are_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(failpoints.VARIABLE, text)
    for read in (failpoints.arm, failpoints.environment):
        with pytest.raises(ConfigurationError, match=failpoints.VARIABLE):
            read()


def test_workers_inherit_the_drivers_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(failpoints.VARIABLE, "commit.sent:5:kill")
    assert failpoints.environment() == {"CQRS_FAILPOINT": "commit.sent:5:kill"}


def test_tests_can_call_code_at_a_point() -> None:
    """A test's action stays active, also after an owner has armed the failpoint of the environment."""
    calls: list[str] = []
    with failpoints.call_at("apply.inside", lambda: calls.append("here"), times=2):
        for point in ("apply.before", "apply.inside", "apply.inside", "apply.inside"):
            failpoints.arm()
            observer.reached(point)
    observer.reached("apply.inside")
    assert calls == ["here", "here"]
