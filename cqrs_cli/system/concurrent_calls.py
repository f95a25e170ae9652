"""Makes calls concurrently, with a timeout for all of them."""

import threading
import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue

#: Number of concurrent calls.
WORKERS = 8


def call_concurrently(calls: Iterable[Callable[[], None]], timeout: float, workers: int = WORKERS) -> None:
    """Make these calls, `workers` at a time. Calls that have not returned after `timeout` seconds are abandoned: a call
    to a dead peer may never return.
    """
    queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
    for call in calls:
        queue.put(call)
    threads = [
        threading.Thread(target=_make_queued_calls, args=(queue,), daemon=True) for _ in range(workers)
    ]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + timeout
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _make_queued_calls(queue: "SimpleQueue[Callable[[], None]]") -> None:
    while True:
        try:
            call = queue.get_nowait()
        except Empty:
            return
        call()
