"""Messages of a job's tasks while they work: Spark reports on a task only when the task ends."""

import threading

from cqrs_cli.telemetry.datagrams import decode_message
from cqrs_cli.telemetry.listener import DatagramListener


class TaskMessages(DatagramListener):
    """Receives the messages of a job's tasks, each text once. Use as a context manager."""

    def __init__(self, host: str) -> None:
        self._lock = threading.Lock()
        self._new_texts: list[str] = []
        self._seen_texts: set[str] = set()
        super().__init__(host)

    def take_new_messages(self) -> list[str]:
        """Return the messages since the last call."""
        with self._lock:
            texts, self._new_texts = self._new_texts, []
        return texts

    def add(self, text: str) -> None:
        """Store a message from another source; it may have been received before."""
        with self._lock:
            if text not in self._seen_texts:
                self._seen_texts.add(text)
                self._new_texts.append(text)

    def _receive(self, body: bytes) -> None:
        text = decode_message(body)
        if text is not None:
            self.add(text)
