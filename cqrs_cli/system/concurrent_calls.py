"""Makes calls concurrently, with a timeout for all of them."""

import threading
import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue

#: Number of concurrent calls.
WORKERS = 8


def call_together(calls: Iterable[Callable[[], None]], within: float, workers: int = WORKERS) -> None:
    """Make these calls, `workers` at a time. Calls that have not returned after `within` seconds are abandoned: a call
    to a dead peer may never return.
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
