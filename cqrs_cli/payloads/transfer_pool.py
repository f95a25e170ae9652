"""A pool of daemon threads for calls to a store. A call that never returns does not delay the program's exit."""

import threading
import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class _Round(Generic[_K, _V]):
    """Calls that are made together, and their results so far."""

    def __init__(self, calls: Mapping[_K, Callable[[], _V]], deadline: float) -> None:
        self.calls = calls
        self.deadline = deadline  # monotonic seconds
        self.results: dict[_K, _V | Exception] = {}
        self.changed = threading.Condition()

    def make_call(self, name: _K) -> None:
        """Make one call, unless the timeout has passed."""
        if time.monotonic() > self.deadline:
            return
        result: _V | Exception
        try:
            result = self.calls[name]()
        except Exception as error:  # the file system may raise anything
            result = error
        with self.changed:
            self.results[name] = result
            self.changed.notify()

    def wait_for_results(self) -> dict[_K, _V | Exception]:
        """Wait until all calls have returned or the timeout has passed; return the results so far."""
        with self.changed:
            while len(self.results) < len(self.calls):
                seconds_left = self.deadline - time.monotonic()
                if seconds_left <= 0 or not self.changed.wait(seconds_left):
                    break
            return dict(self.results)


class TransferPool:
    """At most `max_threads` threads, which are started on demand and end with the process."""

    def __init__(self, max_threads: int) -> None:
        self._max_threads = max_threads
        self._lock = threading.Lock()
        self._thread_count = 0
        self._unfinished_count = 0  # jobs that are queued or running
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def call(self, calls: Mapping[_K, Callable[[], _V]], timeout: float) -> dict[_K, _V | Exception]:
        """Make the calls; return the result or exception of each call that has returned after `timeout` seconds."""
        call_round = _Round(calls, time.monotonic() + timeout)
        for name in calls:
            self._submit(lambda name=name: call_round.make_call(name))  # type: ignore[misc]
        return call_round.wait_for_results()

    def _submit(self, job: Callable[[], None]) -> None:
        with self._lock:
            self._unfinished_count += 1
            if self._thread_count < min(self._unfinished_count, self._max_threads):
                self._thread_count += 1
                threading.Thread(target=self._work, name="payloads", daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            self._jobs.get()()
            with self._lock:
                self._unfinished_count -= 1
