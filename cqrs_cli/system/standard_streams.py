"""Prepares stdin, stdout and stderr, which a daemon or a cron job may have closed."""

import io
import os
import sys


def prepare_streams() -> None:
    """Open /dev/null in place of each closed stream, and let stdout escape what its encoding lacks.

    The descriptors 0 to 2 are then never those of a socket or a file, where a message would be written.
    """
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            _open_null(descriptor)
            setattr(sys, name, os.fdopen(descriptor, "r" if descriptor == 0 else "w", closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def discard_stdout() -> None:
    """Let stdout end in /dev/null: what is still in its buffer is lost, without an error at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def _open_null(descriptor: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)
    os.set_inheritable(descriptor, True)
