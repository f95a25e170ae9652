"""A batch whose commit cannot succeed: it is halved until it can, and nothing is tried for ever in a hurry."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.kafka import clients, writer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.embedded import broker as embedded
from cqrs_cli.kafka.write_errors import BatchLateError
from cqrs_cli.kafka.writer import FencedWriter
from cqrs_cli.owner.loop import Loop
from cqrs_cli.owner.plan import Partition, Plan
from tests.support.commands import increments, mixture
from tests.support.harness import IMPATIENT, TopicHarness
from tests.support.owners import Process, quietly
from tests.support.raw import raw
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

#: A transaction's time, in seconds; producing may use half of it.
HASTE: dict[str, Any] = {"transaction_timeout": 2.0, "produce_timeout": 1.0}


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commands were in each batch that was decided."""
    seen: list[int] = []
    original = Loop.decide_and_commit

    def noted(loop: Loop, records: list[Any]) -> int:
        seen.append(len(records))
        return original(loop, records)

    monkeypatch.setattr(Loop, "decide_and_commit", noted)
    return seen


@pytest.mark.pins("all-or-none")
def test_overfull_batch_is_halved_until_fitting(
    single_bank: TopicHarness, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    single_bank.send(*mixture(1000))

    def producer(connection: Connection, **settings: Any) -> Any:
        return clients.producer(connection, **{**settings, "queue_buffering_max_messages": 600})

    monkeypatch.setattr(writer, "producer", producer)
    quietly(single_bank.plan(timing=replace(IMPATIENT, produce_timeout=-1.0)))
    assert min(sizes) < 600 < max(sizes)
    assert len(sizes) < 100
    single_bank.check()


@pytest.mark.parametrize("bound", [{"deciding": 0.0}, {"batch_bytes": 1}, {"piece": 3}], ids=str)
def test_cut_batches_decide_everything(single_bank: TopicHarness, bound: dict[str, Any]) -> None:
    """A batch ends early when it has taken its time or its memory; the rest is decided in the next ones."""
    single_bank.send(*mixture(50))
    quietly(single_bank.plan(timing=replace(IMPATIENT, **bound)))
    single_bank.check()


def test_little_room_for_states_decides_everything(single_bank: TopicHarness) -> None:
    """Batches, changes of the shard and the rebuilding of a lost one are cut after every other state."""
    single_bank.send(*mixture(50))
    quietly(replace(single_bank.plan(), cache_bytes=2500))
    single_bank.check()
    quietly(replace(single_bank.plan(machine="new"), cache_bytes=2500))
    single_bank.check("new")


def test_finding_one_record_is_quick(single_bank: TopicHarness, sizes: list[int]) -> None:
    commands = list(mixture(150))
    single_bank.send(*commands[:77], commands[0]._replace(value=os.urandom(9000)), *commands[77:])
    plan = single_bank.plan()
    single_bank.configure("dead-letters", "max.message.bytes", "3000")
    quietly(plan)
    assert sizes.count(1) >= 2 and len(sizes) < 40


def test_late_single_record_is_retried(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    commit, late = FencedWriter.commit, iter([True] * 3)

    def slow(*arguments: Any) -> Any:
        if next(late, False):
            raise BatchLateError("not written in time")
        return commit(*arguments)

    monkeypatch.setattr(FencedWriter, "commit", slow)
    counters.send(*increments(1))
    quietly(counters.plan())
    assert sizes == [1] * 4
    counters.check()


@pytest.fixture
def slowly(single_bank: TopicHarness) -> Iterator[Plan]:
    """The plan of a run whose writes trickle."""
    plan = single_bank.plan()
    slow = replace(
        plan.connection, properties={**plan.connection.properties, "client.id": single_bank.topics.prefix}
    )
    with raw(single_bank.connection) as broker:
        broker.limit_writing(single_bank.topics.prefix, 60_000)
        yield replace(plan, connection=slow)
        broker.limit_writing(single_bank.topics.prefix, None)


@pytest.mark.pins("all-or-none")
def test_slow_batch_is_halved_until_committed(single_bank: TopicHarness, slowly: Plan) -> None:
    single_bank.send(*mixture(2000))
    plan = replace(slowly, targets={Partition("bank_account", 0): single_bank.end("commands")})
    assert Process(plan, most=2000, apply_every=1000, **HASTE).error() is None
    single_bank.check()


@pytest.mark.pins("all-or-none")
def test_absent_broker_blames_no_batch(counters: TopicHarness, kafka_root: Path) -> None:
    broker = embedded.broker_status(kafka_root)
    assert broker is not None
    counters.send(*increments(1))
    owner = Process(counters.plan(), "offsets.after:2:stop", **HASTE)
    eventually(owner.stopped)
    os.kill(broker.pid, signal.SIGSTOP)
    threading.Timer(2.5 * HASTE["transaction_timeout"], os.kill, (broker.pid, signal.SIGCONT)).start()
    owner.signal(signal.SIGCONT)
    assert owner.error() is None
    counters.check()
