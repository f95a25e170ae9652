"""A few threads that call a store at the same time. A call that never returns holds up no other caller's exit."""

import threading
import time
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class _Round(Generic[_K, _V]):
    """Calls that are made together, and what came of them so far."""

    def __init__(self, calls: Mapping[_K, Callable[[], _V]], deadline: float) -> None:
        self.calls = calls
        self.deadline = deadline
        self.results: dict[_K, _V | Exception] = {}
        self.changed = threading.Condition()

    def make(self, name: _K) -> None:
        """Make one call, unless nobody waits for it any more."""
        if time.monotonic() > self.deadline:
            return
        result: _V | Exception
        try:
            result = self.calls[name]()
        except Exception as error:  # the store's own: anything may come
            result = error
        with self.changed:
            self.results[name] = result
            self.changed.notify()

    def wait(self) -> dict[_K, _V | Exception]:
        """The results of the calls that have returned in time."""
        with self.changed:
            while len(self.results) < len(self.calls):
                left = self.deadline - time.monotonic()
                if left <= 0 or not self.changed.wait(left):
                    break
            return dict(self.results)


class TransferPool:
    """Threads that are started as they are needed, `most` at most, and end with the process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0  # jobs
        self._jobs: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def call(self, calls: Mapping[_K, Callable[[], _V]], timeout: float) -> dict[_K, _V | Exception]:
        """Make the calls: what each returned or raised. A call that takes longer than `timeout` is left out."""
        round = _Round(calls, time.monotonic() + timeout)
        for name in calls:
            self._submit(lambda name=name: round.make(name))  # type: ignore[misc]
        return round.wait()

    def _submit(self, job: Callable[[], None]) -> None:
        with self._lock:
            self._unfinished += 1
            if self._threads < min(self._unfinished, self._most):
                self._threads += 1
                threading.Thread(target=self._work, name="payloads", daemon=True).start()
        self._jobs.put(job)

    def _work(self) -> None:
        while True:
            self._jobs.get()()
            with self._lock:
                self._unfinished -= 1
