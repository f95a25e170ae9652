"""Prepares stdin, stdout and stderr, which a daemon or a cron job may have closed."""

import io
import os
import sys


def prepare_streams() -> None:
    """Open /dev/null in place of each closed stream, and let stdout escape characters that its encoding lacks.

    No socket or file then gets a descriptor from 0 to 2, so no message is written into a socket or file by mistake.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _open_null(descriptor)
            setattr(sys, name, os.fdopen(descriptor, "r" if descriptor == 0 else "w", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def discard_stdout() -> None:
    """Redirect stdout to /dev/null: its buffered text is lost, without an error at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _open_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
    os.set_inheritable(descriptor, True)
