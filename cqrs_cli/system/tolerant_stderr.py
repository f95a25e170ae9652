"""Keeps a process working if its stderr cannot be written: the disk is full, or the reader of the pipe has ended."""

import sys
from contextlib import suppress
from typing import Any, TextIO, cast


class _TolerantStream:
    """A text stream whose errors are ignored: lines that cannot be written are lost."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()


def ignore_stderr_errors() -> None:
    """Ignore errors of stderr from now on, in this process."""
    if sys.stderr is not None and not isinstance(sys.stderr, _TolerantStream):
        sys.stderr = cast(TextIO, _TolerantStream(sys.stderr))
