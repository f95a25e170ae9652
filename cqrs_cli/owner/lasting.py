"""Telling an error that stays from one that passes."""

import time


class Lasting:
    """When an error was first seen, and when last. `forgotten`: seconds after which it begins from the start."""

    def __init__(self, forgotten: float) -> None:
        self._forgotten = forgotten
        self._first = self._last = -forgotten

    def lasts(self, seconds: float) -> bool:
        """Note that the error is seen now; true once it has been seen for this long."""
        now = time.monotonic()
        if now - self._last >= self._forgotten:
            self._first = now
        self._last = now
        return now - self._first >= seconds
