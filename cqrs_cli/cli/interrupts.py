"""The signals that end a command. They raise an exception as Ctrl-C does, but never where a lock would stay locked."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NamedTuple

#: The module of Python's import system. An exception may leave the global import lock locked, so that other threads
#: which import wait for ever, and this thread waits for them (CPython 3.11, `_get_module_lock`).
_IMPORT_MODULE = "importlib._bootstrap"

#: Modules of the standard library that acquire locks, or enter blocks, in Python. `with` does not help if `__enter__`
#: or `__exit__` is a Python function: an exception between its steps leaves the lock locked (CPython issue 74174).
_LOCKING_MODULES = {
    "concurrent.futures._base",
    "concurrent.futures.thread",
    "contextlib",
    "logging",
    "queue",
    "threading",
}

#: Seconds after which a signal that came at an unsafe point is sent again.
_RETRY_DELAY = 0.01


class TerminationSignal(KeyboardInterrupt):
    """SIGTERM or SIGHUP, raised as Ctrl-C is, so that one `except KeyboardInterrupt` cleans up after all signals."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.number = number


class ThreadPosition(NamedTuple):
    """A thread's frame and instruction. The reference to the frame prevents that a later frame gets its identity."""

    frame: FrameType
    instruction: int


def thread_position(frame: FrameType) -> ThreadPosition:
    """Return the spot of a thread with this frame."""
    return ThreadPosition(frame, frame.f_lasti)


def is_unsafe_to_interrupt(frame: FrameType, previous: ThreadPosition | None) -> bool:
    """True if an exception at this point would leave a lock locked, or a thread half started.

    `previous`: the position of the main thread at the last signal. If the thread is still there, it waits for a lock
    that it has not acquired, and may be interrupted. An import and the start of a thread are never interrupted: they
    are short.
    """
    module = frame.f_globals.get("__name__")
    if module == _IMPORT_MODULE or _is_starting_thread(frame):
        return True
    return (
        module in _LOCKING_MODULES and not _waits_for_condition(frame) and thread_position(frame) != previous
    )


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
    """Send this process a signal a moment later."""
    timer = threading.Timer(_RETRY_DELAY, os.kill, (os.getpid(), number))
    timer.daemon = True
    timer.start()


@contextmanager
def raise_on_termination() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP raise `TerminationSignal`; an ignored SIGHUP stays ignored, as `nohup` needs
    it. At an unsafe point these signals and Ctrl-C raise nothing: they are sent again.

    Only the main thread can install signal handlers; in other threads nothing changes.
    """
    terminals = [number for number in (1, 2) if os.isatty(number)]
    previous: ThreadPosition | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal previous
        if frame is not None and is_unsafe_to_interrupt(frame, previous):
            previous = thread_position(frame)
            return _send_again(number)
        previous = None
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        for terminal in (number for number in terminals if not os.isatty(number)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), terminal)  # output during cleanup must not fail
        raise TerminationSignal(number)

    def is_handled(number: int) -> bool:
        current_handler = signal.getsignal(number)
        if number == signal.SIGINT:
            return current_handler is signal.default_int_handler
        return number == signal.SIGTERM or current_handler != signal.SIG_IGN

    with ExitStack() as undo:
        if threading.current_thread() is threading.main_thread():
            for number in filter(is_handled, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
                undo.callback(signal.signal, number, signal.signal(number, interrupt))
        yield
