"""Failpoints: points (`observer.POINTS`) at which tests kill, stop or delay an owner.

    CQRS_FAILPOINT=POINT:NTH:ACTION[@FILE]      e.g. commit.sent:5:kill

The action happens when the owners of a process reach POINT for the NTH time. With FILE only one process acts, the first
for which the action is due, and writes its process id to FILE. ACTION is `kill` (SIGKILL), `stop` (SIGSTOP) or `wait`
(only this owner waits, until FILE is removed).

The points `repartition.*` are in `cqrs repartition`, an operator's command.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.observer import POINTS, process_listeners

VARIABLE = "CQRS_FAILPOINT"

ACTIONS = ("kill", "stop", "wait")


class _ArmedFailpoint:
    """The failpoint of `CQRS_FAILPOINT`. It acts when it is reached for the `nth` time."""

    def __init__(self, point: str, nth: int, action: str, file: Path | None) -> None:
        self.point, self._nth, self._action, self._file = point, nth, action, file
        self._count = count(1)

    def reached(self, flush: Callable[[], object] | None = None, **_: object) -> None:
        """Act if the failpoint is due. Before that, `flush` sends the owner's earlier work to the broker."""
        if self.is_due():
            if flush is not None:
                flush()
            self.act()

    def is_due(self) -> bool:
        """Count one more time that the point is reached; True if it is the `nth` time."""
        return next(self._count) == self._nth

    def act(self) -> None:
        if self._file is not None and not _create_first(self._file):
            return
        if self._action == "wait":
            while self._file is not None and self._file.exists():
                time.sleep(0.01)
            return
        # The signal goes to this thread, which stops here. If the signal went to the process, this thread would run on
        # for a moment, and might stop while it holds a lock.
        number = signal.SIGKILL if self._action == "kill" else signal.SIGSTOP
        signal.pthread_kill(threading.get_ident(), number)


_armed: _ArmedFailpoint | None = None


def arm() -> None:
    """Arm the failpoint that the environment variable names; raises `ConfigurationError` for a malformed value."""
    global _armed
    if _armed is not None:
        process_listeners.remove({_armed.point: _armed.reached})
    _armed = _parse(os.environ.get(VARIABLE, ""))
    if _armed is not None:
        process_listeners.append({_armed.point: _armed.reached})


@contextmanager
def call_at(point: str, act: Callable[[], object], times: int = 1) -> Iterator[None]:
    """Inside the block, call `act` when an owner of this process reaches the point, at most `times` times."""
    calls = count(1)

    def call(**_: object) -> None:
        if next(calls) <= times:
            act()

    listener = {point: call}
    process_listeners.append(listener)
    try:
        yield
    finally:
        process_listeners.remove(listener)


def environment() -> dict[str, str]:
    """Return the environment variables for workers, empty if no failpoint is set; raises `ConfigurationError`."""
    text = os.environ.get(VARIABLE, "")
    return {VARIABLE: text} if _parse(text) else {}


def armed(point: str) -> bool:
    """True if this point is armed in this process."""
    return _armed is not None and _armed.point == point


def act_during(point: str, call: Callable[[], object], wait_until_started: Callable[[], object]) -> None:
    """Run `call`. If the point is due, act during the call, as soon as `wait_until_started` returns."""
    if _armed is None or _armed.point != point or not _armed.is_due():
        call()
        return
    from concurrent.futures import ThreadPoolExecutor  # not at the top: it would slow `cqrs --help` by 5 ms

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(call)
        wait_until_started()
        _armed.act()
        future.result()


def _create_first(file: Path) -> bool:
    """Create the file with the id of this process, and return True; return False if another process was first.

    The file appears with the whole id in it, because `link` is atomic.
    """
    temporary_file = file.with_name(f"{file.name}.{os.getpid()}")
    temporary_file.write_text(str(os.getpid()))
    try:
        os.link(temporary_file, file)
    except FileExistsError:
        return False
    finally:
        temporary_file.unlink()
    return True


def _parse(text: str) -> _ArmedFailpoint | None:
    if not text:
        return None
    condition, _, file = text.partition("@")
    point, _, nth_and_action = condition.partition(":")
    nth, _, action = nth_and_action.partition(":")
    if point not in POINTS:
        raise ConfigurationError(f"{VARIABLE}: no point {point!r}", f"known: {', '.join(POINTS)}")
    if not (nth.isdecimal() and int(nth)) or action not in ACTIONS or (action == "wait" and not file):
        raise ConfigurationError(
            f"{VARIABLE}: not POINT:NTH:ACTION[@FILE]: {text!r}",
            f"NTH counts from 1; ACTION is {', '.join(ACTIONS)}, and wait needs a FILE",
        )
    return _ArmedFailpoint(point, int(nth), action, Path(file) if file else None)
