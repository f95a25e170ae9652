"""A batch whose commit cannot succeed: it is halved until it can, and nothing is tried for ever in a hurry."""

import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli.core.handle import call_decide
from cqrs_cli.core.messages.record import Record
from cqrs_cli.deciding.loop import DecideLoop
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.kafka import clients, transactional
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.write_errors import BatchLateError
from cqrs_cli.kafka.writer import FencedWriter
from cqrs_cli.ownership.trials.attempts import ATTEMPTS
from tests.support.brokers import broker
from tests.support.commands import increments, mixture
from tests.support.harness import IMPATIENT, TopicHarness
from tests.support.owners import Process, quietly, running
from tests.support.raw import raw
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

#: A transaction's time, in seconds; producing may use half of it.
HASTE: dict[str, Any] = {"transaction_timeout": 2.0, "produce_timeout": 1.0}


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of commands in each batch that was decided."""
    seen: list[int] = []
    original = DecideLoop.decide_and_commit

    def noted(loop: DecideLoop, records: list[Any]) -> int:
        seen.append(len(records))
        return original(loop, records)

    monkeypatch.setattr(DecideLoop, "decide_and_commit", noted)
    return seen


@pytest.mark.pins("all-or-none")
def test_overfull_batch_is_halved_until_fitting(
    single_bank: TopicHarness, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    single_bank.send(*mixture(1000))

    def producer(connection: Connection, **settings: Any) -> Any:
        return clients.producer(connection, **{**settings, "queue_buffering_max_messages": 600})

    monkeypatch.setattr(transactional, "producer", producer)
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


@pytest.mark.pins("bad-input")
def test_short_memory_costs_no_command(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    """A `decide` that lacks memory behind a backlog is asked again alone, and is accepted."""

    def crowded(aggregate: Any, record: Record, *more: Any) -> Any:
        if record.offset == 70 and sizes[-1] > 1:
            raise MemoryError
        return call_decide(aggregate, record, *more)

    counters.send(*increments(100))
    with monkeypatch.context() as patch:
        patch.setattr("cqrs_cli.core.decide.call_decide", crowded)
        patch.setattr("cqrs_cli.ownership.trials.attempts.ATTEMPTS", 1)
        quietly(counters.plan())
    assert len(sizes) < 20
    counters.check()


@pytest.mark.pins("bad-input")
@pytest.mark.parametrize("error", [MemoryError("no"), OSError(24, "Too many open files"), SystemExit(1)])
def test_lasting_process_error_fails_alone(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch, sizes: list[int], error: BaseException
) -> None:
    def broken(aggregate: Any, record: Record, *more: Any) -> Any:
        if record.offset == 7:
            raise error
        return call_decide(aggregate, record, *more)

    monkeypatch.setattr("cqrs_cli.core.decide.call_decide", broken)
    counters.send(*increments(10))
    with running(counters.plan()) as owner:
        assert owner.error() is None
        assert "counter.commands partition 0 offset 7 failed: " in owner.notes()[0]
    assert sizes.count(1) >= ATTEMPTS
    failed = [outcome.data for outcome in counters.outcomes() if outcome.data.status != "accepted"]
    assert [(data.offset, data.reason) for data in failed] == [(7, "HANDLER_ERROR")]
    assert f"(tried alone {ATTEMPTS} times)" in str(failed[0].message)
    assert len(counters.outcomes()) == 10
    assert counters.violations() == []


def test_late_single_record_is_retried(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    write, late = FencedWriter.write, iter([True] * 3)

    def slow(*arguments: Any) -> None:
        if next(late, False):
            raise BatchLateError("not written in time")
        write(*arguments)

    monkeypatch.setattr(FencedWriter, "write", slow)
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
    with raw(single_bank.connection) as shared:
        shared.limit_writing(single_bank.topics.prefix, 60_000)
        yield replace(plan, connection=slow)
        shared.limit_writing(single_bank.topics.prefix, None)


@pytest.mark.pins("all-or-none")
def test_slow_batch_is_halved_until_committed(single_bank: TopicHarness, slowly: Plan) -> None:
    single_bank.send(*mixture(2000))
    plan = replace(slowly, targets={Partition("bank_account", 0): single_bank.end("commands")})
    assert Process(plan, most=2000, apply_every=1000, **HASTE).error() is None
    single_bank.check()


@pytest.mark.slow
@pytest.mark.pins("all-or-none")
def test_absent_broker_blames_no_batch(prefix: str, tmp_path: Path) -> None:
    with broker(tmp_path) as mortal:
        counters = TopicHarness(mortal.connection, prefix, tmp_path)
        counters.send(*increments(1))
        owner = Process(counters.plan(), "offsets.after:2:stop", **HASTE)
        eventually(owner.stopped)
        mortal.signal(signal.SIGSTOP)
        threading.Timer(2.5 * HASTE["transaction_timeout"], mortal.signal, [signal.SIGCONT]).start()
        owner.signal(signal.SIGCONT)
        assert owner.error() is None
        counters.check()
