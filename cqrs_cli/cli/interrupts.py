"""The signals that end a command. They raise an exception as Ctrl-C does, but never where a lock would stay locked."""

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, NamedTuple

#: The module of Python's import system. An exception in it may leave the global import lock locked. Other threads then
#: wait for ever at their next import, and this thread waits for them (CPython 3.11, `_get_module_lock`).
_IMPORT_MODULE = "importlib._bootstrap"

#: Modules of the standard library whose Python code acquires locks, or enters `with` blocks. `with` does not help if
#: `__enter__` or `__exit__` is a Python function: an exception between its steps leaves the lock locked (CPython issue
#: 74174).
_LOCKING_MODULES = {
    "concurrent.futures._base",
    "concurrent.futures.thread",
    "contextlib",
    "logging",
    "queue",
    "threading",
}

#: Modules in which an exception may be dropped or converted before it reaches the command: C extensions convert an
#: exception during an import to `ImportError`, Pydantic's validators ignore a `BaseException`, and Typer converts
#: Ctrl-C to exit status 130.
_CONVERTING_MODULES = {_IMPORT_MODULE, "pydantic", "pydantic_settings", "typer.core"}

#: Longest time in seconds that a signal waits for the end of an import or a validator. A user's code may never end.
_MAX_DEFERRAL = 5.0

#: Seconds after which a signal that came at an unsafe point is sent again.
_RETRY_DELAY = 0.01


class TerminationSignal(KeyboardInterrupt):
    """SIGTERM, SIGHUP or SIGINT. One `except KeyboardInterrupt` cleans up after all three."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.number = number


class ThreadPosition(NamedTuple):
    """A thread's frame and instruction. The frame stays referenced, so that no later frame can be mistaken for it."""

    frame: FrameType
    instruction: int


def thread_position(frame: FrameType) -> ThreadPosition:
    """Return the position of a thread with this frame."""
    return ThreadPosition(frame, frame.f_lasti)


def is_unsafe_to_interrupt(frame: FrameType, previous_position: ThreadPosition | None) -> bool:
    """True if an exception at this point would leave a lock locked, or a thread half started.

    `previous_position`: the position of the main thread at the last signal. If the thread is still there, it waits for
    a lock that it has not acquired, and may be interrupted. The code of the import system itself and the start of a
    thread are never interrupted: both are short.
    """
    module = frame.f_globals.get("__name__")
    if module == _IMPORT_MODULE or _is_starting_thread(frame):
        return True
    return (
        module in _LOCKING_MODULES
        and not _waits_for_condition(frame)
        and thread_position(frame) != previous_position
    )


def is_converted(frame: FrameType | None) -> bool:
    """True if an exception at this point may never reach the command, since a caller drops or converts it."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__"))
        if frame.f_code.co_name == "__del__" or not _CONVERTING_MODULES.isdisjoint(
            (module, module.partition(".")[0])
        ):
            return True
        frame = frame.f_back
    return False


def _waits_for_condition(frame: FrameType) -> bool:
    """True in `Condition.wait` after the release of its lock: after an exception the method acquires it again."""
    return frame.f_code.co_qualname == "Condition.wait" and "saved_state" in frame.f_locals


def _is_starting_thread(frame: FrameType | None) -> bool:
    """True during `Thread.start`: an interrupted start could leave a thread that begins after its owner has gone."""
    while frame is not None:
        if frame.f_code.co_qualname == "Thread.start" and frame.f_globals.get("__name__") == "threading":
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    """Send this process a signal a moment later.

    `threading.Timer` would wait for locks that the interrupted thread may hold.
    """

    def send() -> None:
        time.sleep(_RETRY_DELAY)
        os.kill(os.getpid(), number)

    _thread.start_new_thread(send, ())


@contextmanager
def _raise_dropped_signals() -> Iterator[None]:
    """Within the block, send a signal again if Python only reported its exception, as in a finalizer."""
    report = sys.unraisablehook

    def send_or_report(unraisable: Any) -> None:
        if isinstance(unraisable.exc_value, TerminationSignal):
            _send_again(unraisable.exc_value.number)
        else:
            report(unraisable)

    sys.unraisablehook = send_or_report
    try:
        yield
    finally:
        sys.unraisablehook = report


@contextmanager
def raise_on_termination() -> Iterator[None]:
    """Within the block SIGTERM, SIGHUP and SIGINT raise `TerminationSignal`; an ignored SIGHUP stays ignored, for
    `nohup`. At an unsafe point, or where the exception would be lost, a signal raises nothing, and is sent again later.

    Only the main thread can install signal handlers; in other threads nothing changes.
    """
    terminal_fds = [fd for fd in (1, 2) if os.isatty(fd)]
    previous_position: ThreadPosition | None = None
    deferred_since: float | None = None

    def must_wait(frame: FrameType) -> bool:
        waited_seconds = 0.0 if deferred_since is None else time.monotonic() - deferred_since
        return is_unsafe_to_interrupt(frame, previous_position) or (
            waited_seconds < _MAX_DEFERRAL and is_converted(frame)
        )

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal previous_position, deferred_since
        if frame is not None and must_wait(frame):
            previous_position = thread_position(frame)
            deferred_since = time.monotonic() if deferred_since is None else deferred_since
            return _send_again(number)
        previous_position = deferred_since = None
        if number != signal.SIGINT:
            for closed_fd in (fd for fd in terminal_fds if not os.isatty(fd)):
                os.dup2(os.open(os.devnull, os.O_WRONLY), closed_fd)  # output during cleanup must not fail
        raise TerminationSignal(number)

    def is_handled(number: int) -> bool:
        current_handler = signal.getsignal(number)
        if number == signal.SIGINT:
            return current_handler is signal.default_int_handler
        return number == signal.SIGTERM or current_handler != signal.SIG_IGN

    with ExitStack() as undo:
        if threading.current_thread() is threading.main_thread():
            undo.enter_context(_raise_dropped_signals())
            for number in filter(is_handled, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
                undo.callback(signal.signal, number, signal.signal(number, interrupt))
        yield
