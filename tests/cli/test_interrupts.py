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


def interrupt_at_step(action: Callable[[], object], step: int, is_waiting: bool = False) -> bool:
    """Interrupt an action at step number `step`, unless a signal is deferred there. Return False if it has fewer steps.

    Steps are calls, lines and returns. With `is_waiting`, the thread was at the same step a moment before.
    """
    steps = count()
    was_reached = False

    def trace(frame: FrameType, _event: str, _: object) -> Any:
        nonlocal was_reached
        if next(steps) == step:
            was_reached = True
            if not is_unsafe_to_interrupt(frame, thread_position(frame) if is_waiting else None):
                raise TerminationSignal
        return trace

    gc.disable()  # a collection calls back, for example hypothesis, which would add steps
    sys.settrace(trace)
    try:
        action()
    except TerminationSignal:
        pass
    finally:
        sys.settrace(None)
        gc.enable()
    return was_reached


def semaphore_action() -> Callable[[], object]:
    semaphore = threading.Semaphore(9)
    return lambda: semaphore.acquire(timeout=0)


def queue_action() -> Callable[[], object]:
    messages = queue.Queue[None]()
    return lambda: messages.put(None)


def handler_action() -> Callable[[], object]:
    handler = logging.StreamHandler(io.StringIO())
    return lambda: handler.handle(logging.makeLogRecord({}))


@pytest.mark.parametrize("make_action", [semaphore_action, queue_action, handler_action])
def test_no_lock_stays_taken(make_action: Callable[[], Callable[[], object]]) -> None:
    """After a signal at any step, another thread can execute the same action."""
    for step in count():
        action = make_action()
        if not interrupt_at_step(action, step):
            break
        other_thread = threading.Thread(target=action, daemon=True)
        other_thread.start()
        other_thread.join(10)
        assert not other_thread.is_alive(), step
    assert step > 10


def test_interrupted_thread_start_is_complete() -> None:
    """Without this rule a thread whose start was interrupted could begin after its owner checked whether it runs."""
    for step in count():
        thread = threading.Thread(target=int)
        if not interrupt_at_step(thread.start, step, is_waiting=True):
            break
        thread.join(10)
    assert step > 10


def wait_for_event() -> None:
    threading.Event().wait(10)


def wait_for_many_events() -> None:
    """Each wait is shorter than the time between two attempts to interrupt."""
    for _ in range(2000):
        threading.Event().wait(0.005)


def join_sleeping_thread() -> None:
    sleeping_thread = threading.Thread(target=time.sleep, args=[10], daemon=True)
    sleeping_thread.start()
    sleeping_thread.join()


@pytest.mark.parametrize("wait", [wait_for_event, wait_for_many_events, join_sleeping_thread])
def test_waiting_is_interrupted(wait: Callable[[], None]) -> None:
    """Each wait calls code of the standard library that takes locks."""
    main_thread, wait_completed = threading.get_ident(), False

    def send_signal() -> None:
        eventually(lambda: is_running_module("threading", main_thread), every=0.001)
        os.kill(os.getpid(), signal.SIGTERM)

    def parse_and_run(_: Sequence[str]) -> int:
        nonlocal wait_completed
        threading.Thread(target=send_signal).start()
        wait()
        wait_completed = True
        signal.pause()  # the signal is handled here at the latest
        return 0

    assert main([], parse_and_run) == 143
    assert not wait_completed


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_import_releases_the_global_lock(number: int, status: int) -> None:
    """A signal comes while an import waits for another import.

    If it raised, Python would keep the global import lock.
    """
    is_locked, main_thread = threading.Event(), threading.get_ident()

    def hold_import_lock() -> None:
        _imp.acquire_lock()
        is_locked.set()
        try:
            eventually(lambda: is_running_module("importlib._bootstrap", main_thread), every=0.001)
            os.kill(os.getpid(), number)
        finally:
            _imp.release_lock()

    def parse_and_run(_: Sequence[str]) -> int:
        other_thread = threading.Thread(target=hold_import_lock)
        other_thread.start()
        is_locked.wait()
        try:
            importlib.import_module("missing_module")
        except ModuleNotFoundError:
            other_thread.join()
            eventually(lambda: False)  # until the signal comes again
        return 0

    previous_handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main([], parse_and_run) == status
    finally:
        signal.signal(signal.SIGINT, previous_handler)
        if is_held := _imp.lock_held():
            _imp.release_lock()
    assert not is_held


class Finalized:
    """An object whose finalizer gets a signal: Python only reports an exception there."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def signal_in_weak_reference() -> None:
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


def import_terminating_module() -> None:
    """An import within a C extension may convert an exception."""
    sys.modules.pop("tests.cli.terminating_module", None)
    with suppress(TerminationSignal):
        importlib.import_module("tests.cli.terminating_module")


@pytest.mark.parametrize(
    "action", [Finalized, signal_in_weak_reference, parse_command_line, validate, import_terminating_module]
)
def test_dropped_signals_are_raised_again(action: Callable[[], object]) -> None:
    def parse_and_run(_: Sequence[str]) -> int:
        action()
        eventually(lambda: False, within=5)
        return 0

    assert main([], parse_and_run) == 143


def test_endless_imports_are_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_MAX_DEFERRAL", 0.05)
    monkeypatch.setattr(interrupts, "is_converted", lambda _: True)

    def parse_and_run(_: Sequence[str]) -> int:
        signal.raise_signal(signal.SIGTERM)
        eventually(lambda: False, within=5)
        return 0

    assert main([], parse_and_run) == 143


def is_running_module(module: str, thread_id: int) -> bool:
    return bool(sys._current_frames()[thread_id].f_globals["__name__"] == module)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_other_signals_are_like_ctrl_c(cqrs: Cqrs, number: int, status: int) -> None:
    previous_handler = signal.getsignal(number)
    assert cqrs("status", "counter", connect=lambda _: signal.raise_signal(number)) == (status, "", "")
    assert signal.getsignal(number) == previous_handler


def test_ignored_hangup_stays_ignored(cqrs: Cqrs) -> None:
    """`nohup` starts a program with SIGHUP ignored."""

    def connection(cli: Cli) -> None:
        signal.raise_signal(signal.SIGHUP)
        raise UnavailableError("no broker")

    previous_handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert cqrs("status", "counter", connect=connection).status == 4
    finally:
        signal.signal(signal.SIGHUP, previous_handler)


@pytest.mark.program
def test_lost_terminal_ends_without_error(tmp_path: Path) -> None:
    """The terminal is gone, so messages during the cleanup must not fail."""
    code = """
import os, signal
from cqrs_cli.cli import main
from cqrs_cli.cli.context import Cli
def wait(cli, start_broker=True):
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
