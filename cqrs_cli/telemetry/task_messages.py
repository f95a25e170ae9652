"""Messages of a job's tasks while they work: Spark reports on a task only when the task ends."""

import threading

from cqrs_cli.telemetry.datagrams import noted_text
from cqrs_cli.telemetry.listener import DatagramListener


class TaskNotes(DatagramListener):
    """Receives the messages of a job's tasks, each text once. Use as a context manager."""

    def __init__(self, host: str) -> None:
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._taken: set[str] = set()
        super().__init__(host)

    def fresh(self) -> list[str]:
        """Return the messages since the last call."""
        with self._lock:
            texts, self._waiting = self._waiting, []
        return texts

    def take(self, text: str) -> None:
        """Store a message from another source; it may have been received before."""
        with self._lock:
            if text not in self._taken:
                self._taken.add(text)
                self._waiting.append(text)

    def _take(self, body: bytes) -> None:
        text = noted_text(body)
        if text is not None:
            self.take(text)
