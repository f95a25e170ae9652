"""The keys of `cqrs top`, pressed on a pseudo terminal."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.live.terminal import Terminal, terminal
from tests.support.waiting import eventually

#: A program with a live screen. The times of its snapshots increase, so that a paused screen stays unchanged.
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
    statuses = [
        PartitionStatus(AGGREGATE, name, name, "", 0, polled_at=number, lag=number)
        for name in ("bank", "order")
    ]
    return StatusSnapshot(number * 1000, tuple(statuses))

def draw(view, snapshot, choices):
    return render_screen(snapshot, choices, view.reasons, view.error, 120, 30)

try:
    show_live(Console(), poll, lambda: print("closed"), 0.05, draw)
except KeyboardInterrupt:
    print("interrupted")
print("after it")
"""
LEAVE_SCREEN = "\x1b[?1049l"


def program(failing: int = 0) -> tuple[str, str]:
    return "-c", PROGRAM.format(failing=failing)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Terminal]:
    with terminal(tmp_path, *program()) as session:
        session.wait_for_text("sorted by name")
        yield session


@pytest.mark.program
def test_keys_change_the_screen(live: Terminal) -> None:
    live.press("l")
    live.wait_for_text("sorted by lag")
    live.press("a")
    live.wait_for_text("order  ")
    live.press("n")
    live.wait_for_text("sorted by name")
    live.press("q")
    live.wait_for_text(LEAVE_SCREEN)
    assert live.wait_for_exit() == 0
    assert "closed" in live.read()


def clocks(text: str) -> list[str]:
    """Return the times of the drawn snapshots, in order."""
    return re.findall(r"1970-01-01T[0-9:.]+Z", text)


@pytest.mark.program
def test_pausing_keeps_the_screen(live: Terminal) -> None:
    live.press("p")
    live.wait_for_text("paused")
    eventually(lambda: len(clocks(live.read())) > 3)
    assert len(set(clocks(live.drawn_text))) == 1
    live.press(" ")
    eventually(lambda: len(set(clocks(live.read()))) > 2)
    live.press("q")
    assert live.wait_for_exit() == 0


@pytest.mark.program
@pytest.mark.parametrize("key", ["q", "interrupt"])
def test_the_terminal_is_restored(live: Terminal, key: str) -> None:
    assert live.settings() != live.initial_settings
    if key == "interrupt":
        live.interrupt()
    else:
        live.press(key)
    live.wait_for_text(LEAVE_SCREEN)
    live.wait_for_text("after it")
    assert live.wait_for_exit() == 0
    assert live.settings() == live.initial_settings


@pytest.mark.program
def test_an_error_restores_the_terminal(tmp_path: Path) -> None:
    with terminal(tmp_path, *program(failing=3)) as live:
        live.wait_for_text(LEAVE_SCREEN)
        live.wait_for_text("ValueError: the poll failed")
        assert live.wait_for_exit() == 1
        assert live.settings() == live.initial_settings
