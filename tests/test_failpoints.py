"""Failpoints: an environment variable arms one failpoint, and every arrow of the protocol has a failpoint."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli import failpoints
from cqrs_cli.errors import ConfigurationError

PACKAGE = Path(failpoints.__file__).parent


@pytest.fixture(autouse=True)
def disarmed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Disarm the failpoint that a test armed."""
    yield
    monkeypatch.delenv(failpoints.VARIABLE, raising=False)
    failpoints.arm()


def arm(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(failpoints.VARIABLE, text)
    failpoints.arm()


def passing(text: str, *points: str) -> int:
    """Return the exit code of a process that passes these failpoints."""
    passes = ";".join(f"failpoints.reached({point!r})" for point in points)
    program = f"from cqrs_cli import failpoints; failpoints.arm(); {passes}"
    environment = os.environ | {failpoints.VARIABLE: text}
    return subprocess.run([sys.executable, "-c", program], env=environment).returncode


def test_points_and_code_agree() -> None:
    code = "".join(path.read_text() for path in PACKAGE.rglob("*.py") if path.name != "failpoints.py")
    placed = re.findall(r"failpoints\.(?:reached|during)\(\s*\"([^\"]+)\"", code)
    assert set(placed) == set(failpoints.POINTS)


def test_unset_variable_changes_nothing() -> None:
    assert failpoints.environment() == {}
    for point in failpoints.POINTS:
        failpoints.reached(point)


@pytest.mark.program
def test_named_point_acts_once() -> None:
    assert passing("fence.after:2:kill", "fence.after", "claim.after") == 0
    assert passing("fence.after:2:kill", "fence.after", "claim.after", "fence.after") == -signal.SIGKILL


@pytest.mark.program
def test_first_process_acts_and_signs(tmp_path: Path) -> None:
    fault = f"fence.after:1:kill@{tmp_path / 'struck'}"
    assert passing(fault, "fence.after") == -signal.SIGKILL
    assert int((tmp_path / "struck").read_text()) > 0
    assert passing(fault, "fence.after") == 0
    assert [path.name for path in tmp_path.iterdir()] == ["struck"]


def test_flush_needs_an_armed_point(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[str] = []
    (tmp_path / "gone").write_text("another process was here")
    arm(monkeypatch, f"produce.first:2:kill@{tmp_path / 'gone'}")
    failpoints.reached("produce.first", lambda: seen.append("first"))
    failpoints.reached("produce.first", lambda: seen.append("second"))
    assert seen == ["second"]


@pytest.mark.parametrize(
    "text",
    [
        *("fence", "fence.after", "fence.after:kill", "fence.after:0:kill", "nowhere:1:kill"),
        *("fence.after:1:die", "fence.after:1:kill:now", "fence.after:1:wait", "fence.after:1:wait@"),
    ],
)
def test_what_cannot_be_read_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(failpoints.VARIABLE, text)
    for read in (failpoints.arm, failpoints.environment):
        with pytest.raises(ConfigurationError, match=failpoints.VARIABLE):
            read()


def test_workers_inherit_the_drivers_point(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(failpoints.VARIABLE, "commit.sent:5:kill")
    assert failpoints.environment() == {"CQRS_FAILPOINT": "commit.sent:5:kill"}


def test_tests_act_at_a_point() -> None:
    """A test's action stays active, also after an owner has armed the failpoint of the environment."""
    acted: list[str] = []
    with failpoints.call_at("apply.inside", lambda: acted.append("here"), times=2):
        for point in ("apply.before", "apply.inside", "apply.inside", "apply.inside"):
            failpoints.arm()
            failpoints.reached(point)
    failpoints.reached("apply.inside")
    assert acted == ["here", "here"]
