"""Batch admission of a process: while one partition decides a suspect alone, the other partitions decide nothing.

If the process dies during that time, either the suspect killed it, or no command did.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class BatchAdmission:
    """Admits many batches at once, or a single suspect. A waiting suspect has priority over batches."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._batches = 0  # number of admitted batches
        self._waiting_suspects = 0  # number of waiting suspects
        self._has_suspect = False  # True while a suspect is decided

    @contextmanager
    def admit_batch(self) -> Iterator[None]:
        """Decide a batch inside the block."""
        with self._changed:
            self._changed.wait_for(lambda: not self._has_suspect and not self._waiting_suspects)
            self._batches += 1
        try:
            yield
        finally:
            with self._changed:
                self._batches -= 1
                self._changed.notify_all()

    @contextmanager
    def admit_suspect(self) -> Iterator[None]:
        """Decide a suspect inside the block, and nothing else."""
        with self._changed:
            self._waiting_suspects += 1
            try:
                self._changed.wait_for(lambda: not self._has_suspect and not self._batches)
            finally:
                self._waiting_suspects -= 1
            self._has_suspect = True
        try:
            yield
        finally:
            with self._changed:
                self._has_suspect = False
                self._changed.notify_all()


#: The batch admission of this process.
BATCH_ADMISSION = BatchAdmission()
