"""Concurrent calls with a time limit."""

import threading
from functools import partial

from cqrs_cli.system.concurrent_calls import call_concurrently


def test_hanging_call_does_not_block_others() -> None:
    is_released, finished = threading.Event(), list[int]()

    def call(number: int) -> None:
        if number == 0:
            is_released.wait(60)
        finished.append(number)

    call_concurrently((partial(call, number) for number in range(20)), 0.5)
    assert sorted(finished) == list(range(1, 20))
    is_released.set()


def test_all_workers_run_at_once() -> None:
    """Each call waits for all others, so with fewer workers no call would return."""
    barrier, positions = threading.Barrier(20), list[int]()

    def call() -> None:
        positions.append(barrier.wait(60))

    call_concurrently([call] * 20, 60.0, workers=20)
    assert sorted(positions) == list(range(20))
