"""An active owner that is fenced leaves its successor time to claim."""

import threading
from collections.abc import Callable

import pytest

from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.writer import FencedWriter
from cqrs_cli.ownership.timing import Timing
from tests.support.commands import increments
from tests.support.harness import TopicHarness
from tests.support.owners import quietly

pytestmark = pytest.mark.kafka


class Pausing(DecidingSupervisor):
    """A supervisor that is stopped before its next owner starts. `paused` is the pause before that in seconds."""

    paused = 0.0

    def pausing(self) -> None:
        self.paused = self.pause
        self.stopping.set()


def fence_at_work(counters: TopicHarness, supervisor: DecidingSupervisor) -> None:
    """Fence an owner once it has decided one command, then send another. Returns when the owner has ended."""
    thread = threading.Thread(target=supervisor.run, daemon=True)
    thread.start()
    counters.await_outcomes(1)
    FencedWriter(supervisor.plan.log(supervisor.partition), 1_000_000).fence()
    counters.send(*increments(1))
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.covers("one-outcome")
def test_a_fenced_owner_lets_another_claim(counters: TopicHarness) -> None:
    counters.send(*increments(1))
    plan, partition = counters.plan(once=False), Partition("counter", 0)
    supervisor = Pausing(plan, partition, counters.aggregate, 0, threading.Event())
    fence_at_work(counters, supervisor)
    assert supervisor.error is None
    assert supervisor.paused == plan.timing.fenced_pause


class Succeeded(DecidingSupervisor):
    """A supervisor whose successor claims during the pause."""

    succeed: Callable[[], object]
    pauses = 0

    def pausing(self) -> None:
        self.pauses += 1
        self.succeed()


def test_a_pause_ends_with_the_claim(counters: TopicHarness) -> None:
    """A successor that needs long to claim is not fenced back.

    The pause ends with its claim, even with a long limit.
    """
    counters.send(*increments(1))
    patient = counters.plan(once=False, timing=Timing(fenced_pause=3600.0))
    partition = Partition("counter", 0)
    supervisor = Succeeded(patient, partition, counters.aggregate, 0, threading.Event())
    supervisor.succeed = lambda: quietly(counters.plan(machine="successor"))
    fence_at_work(counters, supervisor)
    assert isinstance(supervisor.error, TakenOverError)
    assert (supervisor.pauses, len(counters.outcomes())) == (1, 2)
