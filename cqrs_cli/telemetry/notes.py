"""Notes of a job's tasks, said while they work: Spark hears of a task only when it ends."""

import threading
from collections.abc import Callable
from typing import TypeVar

from cqrs_cli.telemetry.datagrams import noted_text
from cqrs_cli.telemetry.listener import DatagramListener

_P = TypeVar("_P")


class TaskNotes(DatagramListener):
    """Takes the notes of a job's tasks, and says each once. Use as a context manager."""

    def __init__(self, host: str) -> None:
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._said: set[str] = set()
        super().__init__(host)

    def say(self, note: Callable[[str], None]) -> bool:
        """Say those that have come since the last call; false if there were none."""
        with self._lock:
            texts, self._waiting = self._waiting, []
        for text in texts:
            self.say_once(note, text)
        return bool(texts)

    def saying(self, watch: Callable[[_P], None], note: Callable[[str], None]) -> Callable[[_P], None]:
        """`watch`, which says the notes, too."""

        def watching(progress: _P) -> None:
            watch(progress)
            self.say(note)

        return watching

    def say_once(self, note: Callable[[str], None], text: str) -> None:
        """Say a note unless it has been said: tasks hand theirs on at their end, too."""
        if text not in self._said:
            self._said.add(text)
            note(text)

    def _take(self, body: bytes) -> None:
        text = noted_text(body)
        if text is not None:
            with self._lock:
                self._waiting.append(text)
