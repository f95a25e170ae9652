"""Folding before a fence: until little is left, and not all the time."""

from collections.abc import Callable

import pytest

from cqrs_cli.deciding.catch_up import CatchUp, catch_up_fully


class Clock:
    """A clock that advances only while the owner folds, by the given seconds."""

    def __init__(self, *seconds: float) -> None:
        self.now, self.left = 0.0, list(seconds)

    def fold(self) -> None:
        self.now += self.left.pop(0)

    @property
    def read(self) -> Callable[[], float]:
        return lambda: self.now


@pytest.mark.parametrize(
    ("seconds", "left"),
    [([0.5, 0.1], 1), ([40.0, 4.0, 0.4, 0.1], 1), ([40.0, 30.0, 20.0], 1), ([3.0, 1.6, 0.1], 1)],
    ids=["at once", "until a moment is left", "no faster than it comes", "hardly faster"],
)
def test_it_folds_while_that_helps(seconds: list[float], left: int) -> None:
    clock = Clock(*seconds)
    catch_up_fully(clock.fold, clock.read)
    assert len(clock.left) == left


def test_it_folds_a_quarter_of_time() -> None:
    clock = Clock(10.0, 1.0)
    leveling = CatchUp(clock.fold, clock.read)
    leveling()
    clock.now += 29.0
    leveling()
    assert clock.left == [1.0]
    clock.now += 2.0
    leveling()
    assert clock.left == []


def test_it_rests_after_it_has_begun() -> None:
    """An owner that has just folded does not fold again at once."""
    clock = Clock(0.5, 0.1)
    leveling = CatchUp(clock.fold, clock.read)
    catch_up_fully(leveling.fold, clock.read)
    clock.now += 0.9
    leveling()
    assert clock.left == [0.1]
    clock.now += 0.7
    leveling()
    assert clock.left == []
