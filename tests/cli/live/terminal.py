"""A program on a pseudo terminal, whose other side is the test."""

import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support import ROOT
from tests.support.waiting import eventually


class Terminal:
    """A terminal with a program on it."""

    def __init__(self, program: Sequence[str], folder: Path) -> None:
        self._ours, self._theirs = pty.openpty()
        termios.tcsetwinsize(self._theirs, (30, 120))
        os.set_blocking(self._ours, False)
        self.before = self.settings()
        self.shown = ""
        environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT)}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [sys.executable, *program],
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )

    def settings(self) -> Any:
        """Return the terminal's settings, such as echo and line mode, which a program may change."""
        return termios.tcgetattr(self._theirs)

    def read(self) -> str:
        """Return everything that was drawn since the last `see`."""
        try:
            while drawn := os.read(self._ours, 100_000):
                self.shown += drawn.decode(errors="replace")
        except OSError:  # nothing to read now
            pass
        return self.shown

    def see(self, text: str) -> None:
        """Wait until this text is drawn after the text that was seen before."""
        eventually(lambda: text in self.read())
        self.shown = self.shown.split(text, 1)[1]

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def ended(self) -> int:
        """Wait for the end, and return the exit code."""
        eventually(lambda: (self.read(), self.process.poll() is not None)[1])
        return self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@contextmanager
def terminal(folder: Path, *program: str) -> Iterator[Terminal]:
    """Run a Python program on a terminal. It is killed if it has not ended."""
    opened = Terminal(program, folder)
    try:
        yield opened
    finally:
        opened.close()
