import _imp
import gc
import importlib
import io
import logging
import os
import queue
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import pexpect
import pytest
import typer
from pydantic import BeforeValidator, TypeAdapter

from cqrs_cli.cli import interrupts
from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.interrupts import TerminationSignal, is_unsafe_to_interrupt, thread_position
from cqrs_cli.cli.main import main
from cqrs_cli.errors import UnavailableError
from tests.cli.conftest import Cqrs
from tests.support import AGGREGATES
from tests.support.waiting import eventually


def struck(use: Callable[[], object], position: int, waited: bool = False) -> bool:
    """Interrupt a use at step `position`, unless a signal is deferred there. Return False if it has fewer steps.

    Steps are calls, lines and returns. With `waited`, the thread was at the same step a moment before.
    """
    steps = count()
    came = False

    def trace(frame: FrameType, _event: str, _: object) -> Any:
        nonlocal came
        if next(steps) == position:
            came = True
            if not is_unsafe_to_interrupt(frame, thread_position(frame) if waited else None):
                raise TerminationSignal
        return trace

    gc.disable()  # a collection adds steps: it may call back, as hypothesis is notified of each
    sys.settrace(trace)
    try:
        use()
    except TerminationSignal:
        pass
    finally:
        sys.settrace(None)
        gc.enable()
    return came


def acquire() -> Callable[[], object]:
    semaphore = threading.Semaphore(9)
    return lambda: semaphore.acquire(timeout=0)


def put() -> Callable[[], object]:
    waiting = queue.Queue[None]()
    return lambda: waiting.put(None)


def handle() -> Callable[[], object]:
    handler = logging.StreamHandler(io.StringIO())
    return lambda: handler.handle(logging.makeLogRecord({}))


@pytest.mark.parametrize("make", [acquire, put, handle])
def test_no_lock_stays_taken(make: Callable[[], Callable[[], object]]) -> None:
    """Another thread can do the same afterwards, for a signal at any step."""
    for position in count():
        use = make()
        if not struck(use, position):
            break
        other = threading.Thread(target=use, daemon=True)
        other.start()
        other.join(10)
        assert not other.is_alive(), position
    assert position > 10


def test_threads_are_started_whole() -> None:
    """A thread whose start was interrupted could begin after its owner's last check that it runs."""
    for position in count():
        thread = threading.Thread(target=int)
        if not struck(thread.start, position, waited=True):
            break
        thread.join(10)
    assert position > 10


def event() -> None:
    threading.Event().wait(10)


def many_events() -> None:
    """Each wait is shorter than the time between two attempts to interrupt."""
    for _ in range(2000):
        threading.Event().wait(0.005)


def thread() -> None:
    sleeping = threading.Thread(target=time.sleep, args=[10], daemon=True)
    sleeping.start()
    sleeping.join()


@pytest.mark.parametrize("wait", [event, many_events, thread])
def test_waiting_is_interrupted(wait: Callable[[], None]) -> None:
    """The wait is within code that takes locks."""
    main_thread, waited_in_vain = threading.get_ident(), False

    def send() -> None:
        eventually(lambda: _is_in("threading", main_thread), every=0.001)
        os.kill(os.getpid(), signal.SIGTERM)

    def read(_: Sequence[str]) -> int:
        nonlocal waited_in_vain
        threading.Thread(target=send).start()
        wait()
        waited_in_vain = True
        signal.pause()  # the signal comes now
        return 0

    assert main([], read) == 143
    assert not waited_in_vain


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_imports_are_left_to_other_threads(number: int, status: int) -> None:
    """A signal comes while an import waits for another import.

    If it raised, Python would keep the global import lock.
    """
    finished, main_thread = threading.Event(), threading.get_ident()

    def hold() -> None:
        _imp.acquire_lock()
        finished.set()
        try:
            eventually(lambda: _is_in("importlib._bootstrap", main_thread), every=0.001)
            os.kill(os.getpid(), number)
        finally:
            _imp.release_lock()

    def read(_: Sequence[str]) -> int:
        other = threading.Thread(target=hold)
        other.start()
        finished.wait()
        try:
            importlib.import_module("nobody_has_this")
        except ModuleNotFoundError:
            other.join()
            eventually(lambda: False)  # until the signal comes again
        return 0

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main([], read) == status
    finally:
        signal.signal(signal.SIGINT, before)
        if is_held := _imp.lock_held():
            _imp.release_lock()
    assert not is_held


class Finalized:
    """An object whose finalizer gets a signal: Python only reports an exception there."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def signal_weakly() -> None:
    """Python only reports an exception of a weak reference's callback."""
    target = type("Target", (), {})()
    reference = weakref.ref(target, lambda _: signal.raise_signal(signal.SIGTERM))
    del target
    assert reference() is None


def parse_command_line() -> None:
    """Typer converts Ctrl-C to exit status 130."""
    program = typer.Typer()
    program.command()(lambda: signal.raise_signal(signal.SIGTERM))
    typer.main.get_command(program).main([], standalone_mode=False)


def validate() -> None:
    """A validator in C may drop an exception."""

    def receive_signal(value: str) -> str:
        signal.raise_signal(signal.SIGTERM)
        return value

    with suppress(TerminationSignal):
        TypeAdapter(Annotated[str, BeforeValidator(receive_signal)]).validate_python("a")


def import_signalled_module() -> None:
    """An import within a C extension may convert an exception."""
    sys.modules.pop("tests.cli.signalled", None)
    with suppress(TerminationSignal):
        importlib.import_module("tests.cli.signalled")


@pytest.mark.parametrize(
    "use", [Finalized, signal_weakly, parse_command_line, validate, import_signalled_module]
)
def test_dropped_signals_come_again(use: Callable[[], object]) -> None:
    def read(_: Sequence[str]) -> int:
        use()
        eventually(lambda: False, within=5)
        return 0

    assert main([], read) == 143


def test_endless_imports_are_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_MAX_DEFERRAL", 0.05)
    monkeypatch.setattr(interrupts, "is_converted", lambda _: True)

    def read(_: Sequence[str]) -> int:
        signal.raise_signal(signal.SIGTERM)
        eventually(lambda: False, within=5)
        return 0

    assert main([], read) == 143


def _is_in(module: str, thread: int) -> bool:
    return bool(sys._current_frames()[thread].f_globals["__name__"] == module)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_other_signals_are_like_ctrl_c(cqrs: Cqrs, number: int, status: int) -> None:
    before = signal.getsignal(number)
    assert cqrs("status", "counter", connect=lambda _: signal.raise_signal(number)) == (status, "", "")
    assert signal.getsignal(number) == before


def test_ignored_hangup_stays_ignored(cqrs: Cqrs) -> None:
    """`nohup` starts a program in this way."""

    def connection(cli: Cli) -> None:
        signal.raise_signal(signal.SIGHUP)
        raise UnavailableError("no broker")

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert cqrs("status", "counter", connect=connection).status == 4
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.program
def test_lost_terminal_ends_quietly(tmp_path: Path) -> None:
    """The terminal is gone, so messages during the cleanup must not fail."""
    code = """
import os, signal
from cqrs_cli.cli import main
from cqrs_cli.cli.context import Cli
def wait(cli):
    cli.print_note("waiting")
    try:
        signal.pause()
    except KeyboardInterrupt:
        cli.print_note("stopped")
        raise
Cli.connection = wait
status = main.main(["status", "counter"])
open("status", "w").write(str(status))
"""
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").symlink_to(AGGREGATES)
    child = pexpect.spawn(sys.executable, ["-c", code], cwd=str(tmp_path), timeout=60, use_poll=True)
    child.expect("waiting")
    os.close(child.child_fd)
    os.waitpid(child.pid, 0)
    assert (tmp_path / "status").read_text() == "129"
