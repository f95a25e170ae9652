"""The gate of a process: while one partition decides a suspect alone, its neighbours decide nothing.

So if the process dies then, it died of that command, or of nothing that a command did.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Gate:
    """Lets many batches pass at once, or one suspect alone, which goes first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batches = 0
        self._waiting = 0  # suspects that wait
        self._occupied = False  # by a suspect

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Decide a batch inside the block."""
        with self._changed:
            self._changed.wait_for(lambda: not self._occupied and not self._waiting)
            self._batches += 1
        try:
            yield
        finally:
            with self._changed:
                self._batches -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Decide a suspect inside the block."""
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._occupied and not self._batches)
            finally:
                self._waiting -= 1
            self._occupied = True
        try:
            yield
        finally:
            with self._changed:
                self._occupied = False
                self._changed.notify_all()


#: The gate of this process.
GATE = Gate()
