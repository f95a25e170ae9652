"""Concurrent calls with a time limit."""

import threading
from functools import partial

from cqrs_cli.system.concurrent_calls import call_concurrently


def test_calls_outlast_one_that_hangs() -> None:
    never, done = threading.Event(), list[int]()

    def call(number: int) -> None:
        if number == 0:
            never.wait(60)
        done.append(number)

    call_concurrently((partial(call, number) for number in range(20)), 0.5)
    assert sorted(done) == list(range(1, 20))
    never.set()


def test_as_many_are_under_way_as_asked() -> None:
    """Each call waits for all others, so with fewer workers no call would return."""
    meeting, met = threading.Barrier(20), list[int]()

    def call() -> None:
        met.append(meeting.wait(60))

    call_concurrently([call] * 20, 60.0, workers=20)
    assert sorted(met) == list(range(20))
