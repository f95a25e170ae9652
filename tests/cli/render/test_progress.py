"""The progress of a run off a terminal."""

import re

import pytest

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.render.progress import PLAIN_EVERY, Display
from cqrs_cli.jobs.run.progress import Snapshot
from cqrs_cli.owner.claim import Counts
from cqrs_cli.owner.plan import Partition
from tests.cli.conftest import Cqrs


def snapshot(at: float, decided: int, lag: int = 0) -> Snapshot:
    return Snapshot(at, {Partition("counter", 0): Counts(accepted=decided)}, lag)


def shown(capfd: pytest.CaptureFixture[str], *snapshots: Snapshot) -> list[str]:
    """The lines that these looks at a run come to, without their speed."""
    with Display(Cli()) as display:
        for one in snapshots:
            display.show(one)
    return [line.partition(" · ")[2] for line in capfd.readouterr().err.splitlines()]


def line(decided: int, lag: int = 0) -> str:
    return f"lag {lag} · accepted {decided} · rejected 0 · duplicate 0 · failed 0"


def test_last_plain_line_is_true(capfd: pytest.CaptureFixture[str]) -> None:
    """Decided soon after a line, and nothing since: the next line says it."""
    looks = [snapshot(1, 15, lag=5), snapshot(2, 20), *(snapshot(n, 20) for n in range(3, 60))]
    assert shown(capfd, *looks) == [line(15, lag=5), line(20)]


def test_lines_keep_their_distance(capfd: pytest.CaptureFixture[str]) -> None:
    looks = [snapshot(at, at) for at in range(1, 2 * int(PLAIN_EVERY) + 1)]
    assert shown(capfd, *looks) == [line(1), line(1 + int(PLAIN_EVERY))]


def test_growing_lag_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    looks = [snapshot(0, 1), snapshot(PLAIN_EVERY, 1, lag=7)]
    assert shown(capfd, *looks) == [line(1), line(1, lag=7)]


def test_idle_run_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert shown(capfd, snapshot(0, 0), snapshot(PLAIN_EVERY, 0, lag=3)) == []


def test_lines_of_a_run_have_times(monkeypatch: pytest.MonkeyPatch, cqrs: Cqrs) -> None:
    """In a pipe: a terminal's user sees when they come."""

    def connection(cli: Cli) -> None:
        with Display(cli) as display:
            display.note("noted")
            display.show(snapshot(0, 20))
        raise KeyboardInterrupt

    monkeypatch.setattr(Cli, "connection", connection)
    said = cqrs("run", "counter")
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert re.fullmatch(f"{time} noted\n{time} 0 commands/s · {line(20)}\n", said.err)


def test_other_commands_have_no_times(monkeypatch: pytest.MonkeyPatch, cqrs: Cqrs) -> None:
    monkeypatch.setattr(Cli, "connection", lambda cli: cli.note("noted"))
    assert cqrs("status", "counter").err.startswith("noted\n")
