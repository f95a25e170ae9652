"""The keys of `cqrs top`, pressed on a pseudo terminal."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.live.terminal import Terminal, terminal
from tests.support.waiting import eventually

#: The program's snapshots have increasing times, so that a paused screen differs from an active one.
PROGRAM = """
import itertools
from rich.console import Console
from cqrs_cli.cli.live.loop import show_live
from cqrs_cli.cli.live.screen import render_screen
from cqrs_cli.status.partition import AGGREGATE, PartitionStatus
from cqrs_cli.status.rates import StatusSnapshot

numbers = itertools.count(1)

def poll():
    number = next(numbers)
    if number == {failing}:
        raise ValueError("the poll failed")
    statuses = [PartitionStatus(AGGREGATE, name, name, "", 0, at=number, lag=number) for name in ("bank", "order")]
    return StatusSnapshot(number * 1000, tuple(statuses))

def draw(shown, snapshot, choices):
    return render_screen(snapshot, choices, shown.reasons, shown.error, 120, 30)

try:
    show_live(Console(), poll, lambda: print("closed"), 0.05, draw)
except KeyboardInterrupt:
    print("interrupted")
print("after it")
"""
LEFT = "\x1b[?1049l"


def program(failing: int = 0) -> tuple[str, str]:
    return "-c", PROGRAM.format(failing=failing)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Terminal]:
    with terminal(tmp_path, *program()) as opened:
        opened.see("sorted by name")
        yield opened


@pytest.mark.program
def test_keys_are_heard(live: Terminal) -> None:
    live.press("l")
    live.see("sorted by lag")
    live.press("a")
    live.see("order  ")
    live.press("n")
    live.see("sorted by name")
    live.press("q")
    live.see(LEFT)
    assert live.ended() == 0
    assert "closed" in live.read()


def clocks(drawn: str) -> list[str]:
    """Return the times of the drawn snapshots, in order."""
    return re.findall(r"1970-01-01T[0-9:.]+Z", drawn)


@pytest.mark.program
def test_pausing_keeps_the_picture(live: Terminal) -> None:
    live.press("p")
    live.see("paused")
    eventually(lambda: len(clocks(live.read())) > 3)
    assert len(set(clocks(live.shown))) == 1
    live.press(" ")
    eventually(lambda: len(set(clocks(live.read()))) > 2)
    live.press("q")
    assert live.ended() == 0


@pytest.mark.program
@pytest.mark.parametrize("ending", ["q", "interrupt"])
def test_the_terminal_is_restored(live: Terminal, ending: str) -> None:
    assert live.settings() != live.before
    if ending == "interrupt":
        live.interrupt()
    else:
        live.press(ending)
    live.see(LEFT)
    live.see("after it")
    assert live.ended() == 0
    assert live.settings() == live.before


@pytest.mark.program
def test_an_error_restores_the_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, *program(failing=3)) as live:
        live.see(LEFT)
        live.see("ValueError: the poll failed")
        assert live.ended() == 1
        assert live.settings() == live.before
