"""An active owner that is fenced leaves its successor time to claim."""

import threading

import pytest

from cqrs_cli import failpoints
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.writer import FencedWriter
from cqrs_cli.ownership.timing import Timing
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan

pytestmark = pytest.mark.kafka


def fence_at_work(counters: TopicHarness, supervisor: DecidingSupervisor) -> None:
    """Fence an owner once it has decided one command, then send another. Returns when the owner has ended."""
    thread = threading.Thread(target=supervisor.run, daemon=True)
    thread.start()
    counters.await_outcomes(1)
    FencedWriter(supervisor.plan.log(supervisor.partition), 1_000_000).fence()
    counters.send(*increment_commands(1))
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.covers("one-outcome")
def test_a_fenced_owner_lets_another_claim(counters: TopicHarness) -> None:
    counters.send(*increment_commands(1))
    plan, partition = counters.plan(once=False), Partition("counter", 0)
    supervisor = DecidingSupervisor(plan, partition, counters.aggregate, 0, threading.Event())
    delays: list[float] = []

    def stop() -> None:
        delays.append(supervisor.restart_delay)
        supervisor.stopping.set()

    with failpoints.call_at("owner.restarting", stop):
        fence_at_work(counters, supervisor)
    assert supervisor.error is None
    assert delays == [plan.timing.fenced_pause]


def test_a_pause_ends_with_the_claim(counters: TopicHarness) -> None:
    """A successor that needs long to claim is not fenced back.

    The pause ends with its claim, even with a long limit.
    """
    counters.send(*increment_commands(1))
    plan = counters.plan(once=False, timing=Timing(fenced_pause=3600.0))
    partition = Partition("counter", 0)
    supervisor = DecidingSupervisor(plan, partition, counters.aggregate, 0, threading.Event())
    with failpoints.call_at("owner.restarting", lambda: run_plan(counters.plan(machine="successor"))):
        fence_at_work(counters, supervisor)
    assert isinstance(supervisor.error, TakenOverError)
    assert (supervisor.measures.counts["owner_restarts"], len(counters.outcomes())) == (1, 2)
