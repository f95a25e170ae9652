"""Ending a run from outside, also when no broker is there."""

import threading
from contextlib import closing
from types import SimpleNamespace
from typing import Any, cast

import pytest
from confluent_kafka import TopicPartition

from cqrs_cli.deciding import retire as retiring
from cqrs_cli.deciding.plan import Plan
from cqrs_cli.jobs.run import driver
from cqrs_cli.kafka.clients import consumer
from cqrs_cli.ownership.claim import TERMINAL
from cqrs_cli.ownership.timing import Timing
from tests.support.commands import increments
from tests.support.harness import TopicHarness
from tests.support.owners import quietly


def test_retiring_outlasts_a_hanging_call(monkeypatch: pytest.MonkeyPatch) -> None:
    never, retired = threading.Event(), []

    def retire_one(_: Plan, partition: tuple[str, int]) -> None:
        if partition[1] == 0:
            never.wait(60)
        retired.append(partition[1])

    monkeypatch.setattr(retiring, "_retire_one", retire_one)
    timing = Timing(retire_deadline=0.5)
    plan = SimpleNamespace(
        timing=timing, partitions=lambda: [("counter", partition) for partition in range(20)]
    )
    retiring.retire(cast(Plan, plan))
    assert sorted(retired) == list(range(1, 20))
    never.set()


@pytest.mark.kafka
@pytest.mark.pins("one-outcome")
def test_old_offset_gets_no_last_claim(counters: TopicHarness) -> None:
    """To commit it would move the group back for good."""
    counters.send(*increments(5))
    plan = counters.plan()
    quietly(plan)
    _, claim = counters.standing()
    assert claim is not None
    group = consumer(counters.connection, group=counters.topics.group)

    def told(offset: int) -> None:
        place = TopicPartition(counters.topics.commands, 0, offset, claim.metadata())
        group.commit(offsets=[place], asynchronous=False)

    with closing(group):
        told(2)
        retiring.retire(plan)
        assert counters.standing() == (2, claim)
        told(5)
        retiring.retire(plan)
        offset, last = counters.standing()
        assert offset == 5 and last is not None and last.attempt == TERMINAL


class Stopping:
    """A Spark job, and what the driver knows of it: it ends once it was asked three times for its checkpoints."""

    def __init__(self, ends: bool) -> None:
        self.asked, self.ends, self.cancelled = 0, ends, 0
        self.reports = SimpleNamespace(fresh_notes=lambda: ["no checkpoint"])

    def statusTracker(self) -> "Stopping":
        return self

    def getActiveJobsIds(self) -> list[int]:
        return [] if self.ends and self.asked == 3 else [1]

    def cancelJobGroup(self, _: str) -> None:
        self.cancelled += 1

    def checkpointing(self) -> bool:
        self.asked += 1
        return True


@pytest.mark.pins("checkpoint")
@pytest.mark.parametrize("ends", [True, False])
def test_stop_leaves_time_for_checkpoints(monkeypatch: pytest.MonkeyPatch, ends: bool) -> None:
    """Without bound only if they end: else the job is cancelled."""
    monkeypatch.setattr(driver, "retire", lambda _: None)
    notes: list[str] = []
    job: Any = Stopping(ends)
    plan = SimpleNamespace(timing=Timing(quiet_end=0.0, retire_deadline=60.0 if ends else 0.1))
    driver._stop(job, cast(Plan, plan), None, job, notes.append)
    assert (job.cancelled, notes) == (0 if ends else 1, ["no checkpoint"])
