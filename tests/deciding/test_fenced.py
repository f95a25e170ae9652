"""An owner at work that is fenced leaves its successor the time to claim."""

import threading

import pytest

from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.kafka.writer import FencedWriter
from tests.support.commands import increments
from tests.support.harness import TopicHarness

pytestmark = pytest.mark.kafka


class Pausing(DecidingSupervisor):
    """Is told to stop before another owner begins; `paused`: the pause before that."""

    paused = 0.0

    def pausing(self) -> None:
        self.paused = self.pause
        self.stopping.set()


@pytest.mark.pins("one-outcome")
def test_a_fenced_owner_lets_another_claim(counters: TopicHarness) -> None:
    counters.send(*increments(1))
    plan, partition = counters.plan(once=False), Partition("counter", 0)
    supervisor = Pausing(plan, partition, counters.aggregate, 0, threading.Event())
    thread = threading.Thread(target=supervisor.run, daemon=True)
    thread.start()
    counters.await_outcomes(1)
    FencedWriter(plan.log(partition), 1_000_000).fence()
    counters.send(*increments(1))
    thread.join(60)
    assert not thread.is_alive() and supervisor.error is None
    assert supervisor.paused == plan.timing.fenced_pause
