"""Folding before a fence: until little is left, and not all the time."""

from collections.abc import Callable

import pytest

from cqrs_cli.deciding.catch_up import CatchUp, catch_up_fully


class Clock:
    """A clock that advances only while the owner folds, by the given seconds."""

    def __init__(self, *seconds: float) -> None:
        self.now, self.remaining = 0.0, list(seconds)

    def fold(self) -> None:
        self.now += self.remaining.pop(0)

    @property
    def read(self) -> Callable[[], float]:
        return lambda: self.now


@pytest.mark.parametrize(
    ("seconds", "remaining"),
    [([0.5, 0.1], 1), ([40.0, 4.0, 0.4, 0.1], 1), ([40.0, 30.0, 20.0], 1), ([3.0, 1.6, 0.1], 1)],
    ids=["once", "until little remains", "slower than new records", "hardly faster"],
)
def test_catching_up_stops_when_useless(seconds: list[float], remaining: int) -> None:
    clock = Clock(*seconds)
    catch_up_fully(clock.fold, clock.read)
    assert len(clock.remaining) == remaining


def test_folding_takes_a_quarter_of_time() -> None:
    clock = Clock(10.0, 1.0)
    catch_up = CatchUp(clock.fold, clock.read)
    catch_up()
    clock.now += 29.0
    catch_up()
    assert clock.remaining == [1.0]
    clock.now += 2.0
    catch_up()
    assert clock.remaining == []


def test_no_folding_directly_after_catching_up() -> None:
    """An owner that has just folded does not fold again at once."""
    clock = Clock(0.5, 0.1)
    catch_up = CatchUp(clock.fold, clock.read)
    catch_up_fully(catch_up.fold, clock.read)
    clock.now += 0.9
    catch_up()
    assert clock.remaining == [0.1]
    clock.now += 0.7
    catch_up()
    assert clock.remaining == []
