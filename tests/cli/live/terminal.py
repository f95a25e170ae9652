"""A program on a pseudo terminal, which the test reads and writes."""

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
        self._test_end, self._program_end = pty.openpty()
        termios.tcsetwinsize(self._program_end, (30, 120))
        os.set_blocking(self._test_end, False)
        self.initial_settings = self.settings()
        self.drawn_text = ""
        environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT)}
        environment.pop("NO_COLOR", None)
        self.process = subprocess.Popen(
            [sys.executable, *program],
            stdin=self._program_end,
            stdout=self._program_end,
            stderr=self._program_end,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )

    def settings(self) -> Any:
        """Return the terminal's settings, such as echo and line mode, which a program may change."""
        return termios.tcgetattr(self._program_end)

    def read(self) -> str:
        """Return everything that was drawn since the last `wait_for_text`."""
        try:
            while output := os.read(self._test_end, 100_000):
                self.drawn_text += output.decode(errors="replace")
        except OSError:  # nothing to read now
            pass
        return self.drawn_text

    def wait_for_text(self, text: str) -> None:
        """Wait until this text is drawn after the text that was seen before."""
        eventually(lambda: text in self.read())
        self.drawn_text = self.drawn_text.split(text, 1)[1]

    def press(self, keys: str) -> None:
        os.write(self._test_end, keys.encode())

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def wait_for_exit(self) -> int:
        """Wait for the end, and return the exit code."""
        eventually(lambda: (self.read(), self.process.poll() is not None)[1])
        return self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._test_end)
        os.close(self._program_end)


@contextmanager
def terminal(folder: Path, *program: str) -> Iterator[Terminal]:
    """Run a Python program on a terminal. It is killed if it has not ended."""
    session = Terminal(program, folder)
    try:
        yield session
    finally:
        session.close()
