"""Notes of a job's tasks, said while they work: Spark hears of a task only when it ends."""

import threading

from cqrs_cli.telemetry.datagrams import noted_text
from cqrs_cli.telemetry.listener import DatagramListener


class TaskNotes(DatagramListener):
    """Takes the notes of a job's tasks, each text once. Use as a context manager."""

    def __init__(self, host: str) -> None:
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._taken: set[str] = set()
        super().__init__(host)

    def fresh(self) -> list[str]:
        """Those that have come since the last call."""
        with self._lock:
            texts, self._waiting = self._waiting, []
        return texts

    def take(self, text: str) -> None:
        """Take a note that comes by another way, perhaps once more."""
        with self._lock:
            if text not in self._taken:
                self._taken.add(text)
                self._waiting.append(text)

    def _take(self, body: bytes) -> None:
        text = noted_text(body)
        if text is not None:
            self.take(text)
