"""A batch whose commit cannot succeed is halved until it succeeds, and retries are never unlimited and fast."""

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aggregates.counter import Counter
from cqrs_cli import failpoints
from cqrs_cli.deciding.loop import DecideLoop
from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.kafka import clients, transactional
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.write_errors import BatchLateError
from cqrs_cli.ownership.trials.attempts import ATTEMPTS
from tests.support.brokers import broker
from tests.support.commands import increment_commands, mixed_commands
from tests.support.harness import SHORT_TIMEOUTS, TopicHarness
from tests.support.owners import OwnerProcess, run_plan
from tests.support.raw_requests import raw_client
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

#: Transaction timeout in seconds. Half of it may be used for producing.
HASTE: dict[str, Any] = {"transaction_timeout": 2.0, "produce_timeout": 1.0}


def decided_by(counters: TopicHarness, fail: Callable[[Counter], None]) -> list[str]:
    """Run owners whose `decide` first calls `fail` with the state, and return their notes. `fail` may raise."""
    aggregate = counters.aggregate
    whole: Callable[..., Iterable[Any]] = aggregate.decider.decide

    def decide(command: Any, state: Counter) -> Iterable[Any]:
        fail(state)
        yield from whole(command, state)

    failing = replace(aggregate, decider=replace(aggregate.decider, decide=decide))
    supervisor = DecidingSupervisor(counters.plan(), Partition("counter", 0), failing, 0, threading.Event())
    supervisor.run()
    assert supervisor.error is None
    return supervisor.notes


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of commands in each decided batch."""
    seen: list[int] = []
    original = DecideLoop.decide_and_commit

    def noted(loop: DecideLoop, records: list[Any]) -> int:
        seen.append(len(records))
        return original(loop, records)

    monkeypatch.setattr(DecideLoop, "decide_and_commit", noted)
    return seen


@pytest.mark.covers("all-or-none")
def test_overfull_batch_is_halved_until_fitting(
    single_bank: TopicHarness, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    single_bank.send(*mixed_commands(1000))

    def producer(connection: Connection, **settings: Any) -> Any:
        return clients.producer(connection, **{**settings, "queue_buffering_max_messages": 600})

    monkeypatch.setattr(transactional, "producer", producer)
    run_plan(single_bank.plan(timing=replace(SHORT_TIMEOUTS, produce_timeout=-1.0)))
    assert min(sizes) < 600 < max(sizes)
    assert len(sizes) < 100
    single_bank.check()


@pytest.mark.parametrize("bound", [{"batch_seconds": 0.0}, {"batch_bytes": 1}, {"piece_size": 3}], ids=str)
def test_cut_batches_decide_everything(single_bank: TopicHarness, bound: dict[str, Any]) -> None:
    """A batch ends early at its limit of time or memory. The remaining commands are decided in the next batches."""
    single_bank.send(*mixed_commands(50))
    run_plan(single_bank.plan(timing=replace(SHORT_TIMEOUTS, **bound)))
    single_bank.check()


def test_little_room_for_states_decides_everything(single_bank: TopicHarness) -> None:
    """Batches, changes of the shard and the rebuild of a lost shard are cut after every other state."""
    single_bank.send(*mixed_commands(50))
    run_plan(replace(single_bank.plan(), cache_bytes=2500))
    single_bank.check()
    run_plan(replace(single_bank.plan(machine="new"), cache_bytes=2500))
    single_bank.check("new")


def test_finding_one_record_is_quick(single_bank: TopicHarness, sizes: list[int]) -> None:
    commands = list(mixed_commands(150))
    single_bank.send(*commands[:77], commands[0]._replace(value=os.urandom(9000)), *commands[77:])
    plan = single_bank.plan()
    single_bank.configure("dead-letters", "max.message.bytes", "3000")
    run_plan(plan)
    assert sizes.count(1) >= 2 and len(sizes) < 40


@pytest.mark.covers("bad-input")
def test_short_memory_costs_no_command(counters: TopicHarness, sizes: list[int]) -> None:
    """A command that runs out of memory in a large batch is retried alone, and accepted.

    Only failures of the command alone are counted.
    """
    alone = iter([True] * (ATTEMPTS - 1))

    def crowded(state: Counter) -> None:
        if state.value == 70 and (sizes[-1] > 1 or next(alone, False)):
            raise MemoryError

    counters.send(*increment_commands(100))
    assert decided_by(counters, crowded) == []
    assert len(sizes) < 20 and next(alone, None) is None
    counters.check()


@pytest.mark.covers("bad-input")
@pytest.mark.parametrize("error", [MemoryError("no"), OSError(24, "Too many open files"), SystemExit(1)])
def test_lasting_process_error_fails_alone(
    counters: TopicHarness, sizes: list[int], error: BaseException
) -> None:
    def broken(state: Counter) -> None:
        if state.value == 7:
            raise type(error)(*error.args)  # a kept error would keep its frames, and thus the owner

    counters.send(*increment_commands(8), *increment_commands(2, "b", first=8))
    (note,) = decided_by(counters, broken)
    assert "counter.commands partition 0 offset 7 failed: " in note
    assert sizes.count(1) >= ATTEMPTS
    failed = [outcome.data for outcome in counters.outcomes() if outcome.data.status != "accepted"]
    assert [(data.offset, data.reason) for data in failed] == [(7, "HANDLER_ERROR")]
    assert f"(tried alone {ATTEMPTS} times)" in str(failed[0].message)
    assert len(counters.outcomes()) == 10
    assert counters.violations() == []


def test_late_single_record_is_retried(counters: TopicHarness, sizes: list[int]) -> None:
    def late() -> None:
        raise BatchLateError("not written in time")

    counters.send(*increment_commands(1))
    with failpoints.call_at("produce.first", late, times=3):
        run_plan(counters.plan())
    assert sizes == [1] * 4
    counters.check()


@pytest.fixture
def slowly(single_bank: TopicHarness) -> Iterator[Plan]:
    """The plan of a run whose writes are throttled."""
    plan = single_bank.plan()
    slow = replace(
        plan.connection, properties={**plan.connection.properties, "client.id": single_bank.topics.prefix}
    )
    with raw_client(single_bank.connection) as shared:
        shared.limit_writing(single_bank.topics.prefix, 60_000)
        yield replace(plan, connection=slow)
        shared.limit_writing(single_bank.topics.prefix, None)


@pytest.mark.covers("all-or-none")
def test_slow_batch_is_halved_until_committed(single_bank: TopicHarness, slowly: Plan) -> None:
    single_bank.send(*mixed_commands(2000))
    plan = replace(slowly, targets={Partition("bank_account", 0): single_bank.stable_end("commands")})
    assert OwnerProcess(plan, batch_limit=2000, apply_every=1000, **HASTE).error() is None
    single_bank.check()


@pytest.mark.slow
@pytest.mark.covers("all-or-none")
def test_absent_broker_blames_no_batch(prefix: str, tmp_path: Path) -> None:
    with broker(tmp_path) as mortal:
        counters = TopicHarness(mortal.connection, prefix, tmp_path)
        counters.send(*increment_commands(1))
        owner = OwnerProcess(counters.plan(), "offsets.after:2:stop", **HASTE)
        eventually(owner.is_paused)
        mortal.signal(signal.SIGSTOP)
        threading.Timer(2.5 * HASTE["transaction_timeout"], mortal.signal, [signal.SIGCONT]).start()
        owner.signal(signal.SIGCONT)
        assert owner.error() is None
        counters.check()
