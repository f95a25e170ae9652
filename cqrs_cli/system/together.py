"""Calls that are made at once, and waited for with a bound."""

import threading
import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue

#: Calls that are under way at the same time.
WORKERS = 8


def call_together(calls: Iterable[Callable[[], None]], within: float, workers: int = WORKERS) -> None:
    """Make these calls, some at a time. Those that have not returned after `within` s are left behind: a call to
    somebody who is gone may never return.
    """
    waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
    for one in calls:
        waiting.put(one)
    threads = [threading.Thread(target=_work, args=(waiting,), daemon=True) for _ in range(workers)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + within
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _work(waiting: "SimpleQueue[Callable[[], None]]") -> None:
    while True:
        try:
            call = waiting.get_nowait()
        except Empty:
            return
        call()
