"""The only place in the tests that sleeps."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], within: float = 30.0, every: float = 0.02) -> T:
    """Wait until `condition` returns a true value, and return it. Fails after `within` seconds, with the last value.

    The condition is called every `every` seconds, and at most half of the time. A condition that starts a command or a
    client would otherwise take the CPU from the run that it waits for.
    """
    deadline = time.monotonic() + within
    while True:
        start = time.monotonic()
        if value := condition():
            return value
        end = time.monotonic()
        if end > deadline:
            raise AssertionError(f"not within {within:.0f} s: {condition}, last {value!r}")
        time.sleep(max(every, end - start))
