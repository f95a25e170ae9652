"""The signals that end a command are raised where Ctrl-C would be, but nowhere where that leaves a lock taken."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NamedTuple

#: The code of Python's imports. An exception may leave the lock of all imports taken, so that other threads which
#: import wait for ever, and we for them (CPython 3.11, `_get_module_lock`).
_IMPORTS = "importlib._bootstrap"

#: Code of the standard library that takes locks, or enters blocks, in Python. `with` does not help where `__enter__` or
#: `__exit__` is a Python function: an exception between two of its steps leaves the lock taken (CPython issue 74174).
_HOLDING = {
    "concurrent.futures._base",
    "concurrent.futures.thread",
    "contextlib",
    "logging",
    "queue",
    "threading",
}

#: Seconds after which a signal that came at a bad moment is sent again.
_MOMENT = 0.01


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, raised where Ctrl-C would be, so that one `except KeyboardInterrupt` cleans up after all."""

    def __init__(self, number: int = signal.SIGTERM) -> None:
        super().__init__()
        self.number = number


class Spot(NamedTuple):
    """The frame that a thread is in, kept so that no later one has its identity, and the instruction."""

    frame: FrameType
    instruction: int


def spot_of(frame: FrameType) -> Spot:
    """The spot of a thread with this frame."""
    return Spot(frame, frame.f_lasti)


def is_bad_moment(frame: FrameType, before: Spot | None) -> bool:
    """True where an exception would leave a lock taken, or a thread half started.

    `before`: the spot of the main thread a moment ago. If it still is there it waits for a lock, which it has not got:
    then it may be interrupted. Never in an import or the start of a thread: these do not take long.
    """
    module = frame.f_globals.get("__name__")
    if module == _IMPORTS or _starts_a_thread(frame):
        return True
    return module in _HOLDING and not _waits(frame) and spot_of(frame) != before


def _waits(frame: FrameType) -> bool:
    """True in `Condition.wait` once it has let go of its lock: whatever is raised now, it takes it again."""
    return frame.f_code.co_qualname == "Condition.wait" and "saved_state" in frame.f_locals


def _starts_a_thread(frame: FrameType | None) -> bool:
    """If `Thread.start` is interrupted, the thread may begin after its owner has looked if it runs, and ended it."""
    while frame is not None:
        if frame.f_code.co_qualname == "Thread.start" and frame.f_globals.get("__name__") == "threading":
            return True
        frame = frame.f_back
    return False


def _send_again(number: int) -> None:
    """Send this process a signal a moment later."""
    again = threading.Timer(_MOMENT, os.kill, (os.getpid(), number))
    again.daemon = True
    again.start()


@contextmanager
def terminated_like_interrupted() -> Iterator[None]:
    """Within the block SIGTERM and SIGHUP raise `Terminated`, except SIGHUP that is ignored, as `nohup` has it. Neither
    they nor Ctrl-C interrupt at a bad moment: they are sent again.

    Only the main thread can set this; elsewhere nothing changes.
    """
    terminals = [number for number in (1, 2) if os.isatty(number)]
    before: Spot | None = None

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal before
        if frame is not None and is_bad_moment(frame, before):
            before = spot_of(frame)
            return _send_again(number)
        before = None
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        for lost in (one for one in terminals if not os.isatty(one)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), lost)  # what is said while cleaning up must not fail
        raise Terminated(number)

    def is_ours(number: int) -> bool:
        set_before = signal.getsignal(number)
        if number == signal.SIGINT:
            return set_before is signal.default_int_handler
        return number == signal.SIGTERM or set_before != signal.SIG_IGN

    with ExitStack() as undo:
        if threading.current_thread() is threading.main_thread():
            for number in filter(is_ours, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
                undo.callback(signal.signal, number, signal.signal(number, interrupt))
        yield
