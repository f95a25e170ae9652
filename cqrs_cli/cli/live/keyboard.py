"""Reads single keys from a terminal."""

import os
import select
import sys
import termios
import time
import tty


class Keyboard:
    """Reads keys without Enter, and without an echo. Use as a context manager.

    If stdin is not a terminal, no key is ever read.

    The terminal's mode is restored at the end of the block, also after an error. Ctrl-C raises `KeyboardInterrupt`.
    """

    def __enter__(self) -> "Keyboard":
        self._input = sys.stdin.fileno() if sys.stdin.isatty() else None
        if self._input is not None:
            self._previous_mode = termios.tcgetattr(self._input)
            tty.setcbreak(self._input)
        return self

    def __exit__(self, *_: object) -> None:
        if self._input is not None:
            termios.tcsetattr(self._input, termios.TCSADRAIN, self._previous_mode)

    def read_keys(self, timeout: float) -> str:
        """Return the pressed keys; wait at most `timeout` seconds for the first key. `q` if the terminal is gone."""
        if self._input is None:
            time.sleep(timeout)
            return ""
        if not select.select([self._input], [], [], timeout)[0]:
            return ""
        return os.read(self._input, 100).decode(errors="replace") or "q"
