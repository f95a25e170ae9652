"""Events that kill the worker or on which `react` hangs: the process manager stops at them, and names them."""

import os
import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.errors import CqrsError
from cqrs_cli.following.processes.errors import describe_suspects, poison_event
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.ownership.poison_detection.attempts import ATTEMPTS
from cqrs_cli.ownership.poison_detection.suspects import Suspects
from cqrs_cli.ownership.timing import Timing
from tests.following.processes.process_harness import (
    ForkedRun,
    ProcessHarness,
    expected_payments,
    order_placed,
)
from tests.support.checkout import PROCESS
from tests.support.user_code import write_process

#: The maximum number of deaths: three in batches of several events, and `ATTEMPTS` with the event alone.
MAX_DEATHS = 3 + ATTEMPTS


def deadly_harness(connection: Connection, prefix: str, folder: Path, code: str) -> ProcessHarness:
    """Return a harness with ten orders, whose process manager runs `code` at the sixth."""
    harness = ProcessHarness(connection, prefix, write_process(folder, PROCESS.format(then=code)), "mine")
    harness.run_once()
    harness.write_events(map(order_placed, range(10)))
    return harness


def resubmit_until_error(harness: ProcessHarness, **times: Any) -> tuple[CqrsError, list[int | None]]:
    """Run, and resubmit lost tasks. Return the error that ends the run, and the exit codes of the lost tasks."""
    plan, exit_codes = harness.plan(), list[int | None]()
    plan = replace(plan, timing=replace(plan.timing, **times))
    while True:
        exit_code, error = ForkedRun(replace(plan, submission=len(exit_codes))).wait_for_exit()
        if error is not None:
            return error, exit_codes
        assert exit_code in (-signal.SIGKILL, os.EX_SOFTWARE) and len(exit_codes) < MAX_DEATHS
        exit_codes.append(exit_code)


@pytest.mark.kafka
@pytest.mark.covers("reacted-once")
def test_deadly_event_stops_the_process(connection: Connection, prefix: str, tmp_path: Path) -> None:
    harness = deadly_harness(connection, prefix, tmp_path, "import os; os.kill(os.getpid(), 9)")
    error, exit_codes = resubmit_until_error(harness)
    assert ATTEMPTS <= len(exit_codes) <= MAX_DEATHS
    check_stop(harness, error, f"the worker died on it {ATTEMPTS} times")
    position = harness.position()
    assert position is not None and position.claim.suspects is None  # corrected code starts unsuspected
    assert harness.payment_requests() == expected_payments(0, 5)
    harness.run_once(skip=[error.hint.partition("--skip ")[2]])
    assert harness.payment_requests() == expected_payments(0, 10) - Counter({"o-0-5": 1})


@pytest.mark.kafka
@pytest.mark.covers("reacted-once")
def test_endless_event_stops_the_process(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """A `react` that does not end for an event stops the process manager at this event.

    A busy machine may be slow with the other events, so the limit exceeds a pause that counts as the machine's.
    """
    harness = deadly_harness(connection, prefix, tmp_path, "import threading; threading.Event().wait()")
    error, exit_codes = resubmit_until_error(harness, decide_timeout=Timing().pause_threshold + 1.0)
    assert exit_codes == [os.EX_SOFTWARE]
    check_stop(harness, error, "it did not end within ")
    assert harness.payment_requests() == expected_payments(0, 5)


def check_stop(harness: ProcessHarness, error: CqrsError, reason: str) -> None:
    position = harness.position()
    assert position is not None and position.stopped is not None
    assert error.exit_code == 1
    event_address = f"{harness.events}:0@{position.stopped}"
    assert (
        f"process mine cannot process order.Placed {event_address} ('o-0-5', version 1): {reason}"
        in error.message
    )
    assert error.hint.endswith(f"--skip mine:order:0@{position.stopped}")


def test_poison_detection_is_described() -> None:
    assert "the next 128 events are tried 2 at a time" in describe_suspects(Suspects(128))
    assert "event 7 is tried alone: a worker died on it never yet" in describe_suspects(
        Suspects(1).announce(7)
    )
    dead = Suspects(1, 7, ATTEMPTS)
    assert describe_suspects(dead) == f"it stops at event 7: the worker died on it {ATTEMPTS} times"
    assert poison_event(dead) == (7, f"the worker died on it {ATTEMPTS} times")
    assert poison_event(Suspects(1, 7, ATTEMPTS - 1)) is None and poison_event(None) is None
    assert poison_event(Suspects().after_hang(7, 60)) == (7, "it did not end within 60 s")
