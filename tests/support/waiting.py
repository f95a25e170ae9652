"""The one place in the tests that sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], within: float = 30.0, every: float = 0.02) -> T:
    """Wait until `condition` gives something true, and give that. Fails after `within` seconds, with its last value.

    It is asked `every` so many seconds.
    """
    deadline = time.monotonic() + within
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {within:.0f} s: {condition}, last {found!r}")
        time.sleep(every)
    return found
