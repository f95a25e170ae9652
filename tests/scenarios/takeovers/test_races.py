"""What somebody else does between two steps of an owner, on a real broker."""

from typing import Any

import pytest

from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.offsets import committed_now
from cqrs_cli.kafka.readers import read
from cqrs_cli.kafka.writer import FencedWriter
from cqrs_cli.owner.owner import Owner
from cqrs_cli.owner.plan import Partition
from cqrs_cli.owner.warm_up import warm
from cqrs_cli.state.memory import MemoryStore
from cqrs_cli.state.store import Positions
from tests.support.commands import increments
from tests.support.harness import TopicHarness
from tests.support.owners import owned, quietly

pytestmark = pytest.mark.kafka


@pytest.mark.pins("one-owner")
def test_a_fence_without_claim_is_harmless(counters: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    counters.send(*increments(5))
    finish: Any = FencedWriter._finish

    def fenced(*arguments: Any) -> None:
        monkeypatch.setattr(FencedWriter, "_finish", finish)
        stranger = producer(counters.connection, transactional_id=counters.topics.transactional_id(0))
        stranger.init_transactions(10)
        finish(*arguments)

    monkeypatch.setattr(FencedWriter, "_finish", fenced)
    quietly(counters.plan())
    counters.check()


def test_a_contradiction_during_takeover_is_takeover(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters.send(*increments(10))
    uncommitted, plan = Owner._uncommitted, counters.plan()

    def late(tenure: Owner, topic: str) -> tuple[int, int]:
        found = uncommitted(tenure, topic)
        if topic == counters.topics.outcomes:
            monkeypatch.setattr(Owner, "_uncommitted", uncommitted)
            quietly(counters.plan(machine="other"))
        return found

    monkeypatch.setattr(Owner, "_uncommitted", late)
    assert isinstance(owned(plan), TakenOverError)
    counters.check("other")


def test_briefly_short_log_contradicts_nothing(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    counters.send(*increments(5))
    quietly(counters.plan())
    counters.send(*increments(5, first=5))
    uncommitted, stale = Owner._uncommitted, iter([True, True])

    def shown(tenure: Owner, topic: str) -> tuple[int, int]:
        start, end = uncommitted(tenure, topic)
        return start, start if topic == counters.topics.outcomes and next(stale, False) else end

    monkeypatch.setattr(Owner, "_uncommitted", shown)
    monkeypatch.setattr("cqrs_cli.owner.supervisor.CONTRADICTED", 60.0)
    quietly(counters.plan())
    assert next(stale, None) is None
    counters.check()


def test_a_briefly_short_read_stops_nothing(counters: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    counters.send(*increments(5))
    quietly(counters.plan())
    counters.send(*increments(5, first=5))
    stale = iter([True, True])

    def elsewhere(connection: Connection, topic: str, partition: int, start: int, end: int) -> Any:
        beyond = 1000 if next(stale, False) else 0
        return read(connection, topic, partition, start + beyond, end + beyond)

    plan = counters.plan(machine="other")
    monkeypatch.setattr("cqrs_cli.owner.recover.read", elsewhere)
    monkeypatch.setattr("cqrs_cli.owner.supervisor.warm", lambda *_: None)
    quietly(plan)
    assert next(stale, None) is None
    counters.check("other")


def test_a_shard_taken_meanwhile_stays_cold(counters: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    counters.send(*increments(5))
    quietly(counters.plan())
    plan = counters.plan()
    store = MemoryStore(plan.window)

    def late(*arguments: Any) -> Any:
        found = committed_now(*arguments)
        store.take_ownership("9.9.other", "")
        return found

    monkeypatch.setattr("cqrs_cli.owner.warm_up.committed_now", late)
    warm(plan, Partition("counter", 0), counters.aggregate, store)
    assert store.positions() == Positions()
