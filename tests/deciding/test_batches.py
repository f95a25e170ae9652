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
from cqrs_cli.ownership.poison_detection.attempts import ATTEMPTS
from tests.support.brokers import broker
from tests.support.commands import increment_commands, mixed_commands
from tests.support.harness import SHORT_TIMEOUTS, TopicHarness
from tests.support.owners import OwnerProcess, run_plan
from tests.support.raw_requests import raw_client
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

#: Transaction timeout in seconds. Half of it may be used for producing.
TRANSACTION_TIMEOUTS: dict[str, Any] = {"transaction_timeout": 2.0, "produce_timeout": 1.0}


def run_failing_owner(counters: TopicHarness, fail: Callable[[Counter], None]) -> list[str]:
    """Run owners whose `decide` first calls `fail` with the state, and return their notes. `fail` may raise."""
    aggregate = counters.aggregate
    original_decide: Callable[..., Iterable[Any]] = aggregate.decider.decide

    def decide(command: Any, state: Counter) -> Iterable[Any]:
        fail(state)
        yield from original_decide(command, state)

    failing = replace(aggregate, decider=replace(aggregate.decider, decide=decide))
    supervisor = DecidingSupervisor(counters.plan(), Partition("counter", 0), failing, 0, threading.Event())
    supervisor.run()
    assert supervisor.error is None
    return supervisor.notes


@pytest.fixture
def batch_sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of commands in each decided batch."""
    sizes: list[int] = []
    original = DecideLoop.decide_and_commit

    def record_batch_size(loop: DecideLoop, records: list[Any]) -> int:
        sizes.append(len(records))
        return original(loop, records)

    monkeypatch.setattr(DecideLoop, "decide_and_commit", record_batch_size)
    return sizes


def test_commands_arriving_during_wait_join_batch(
    single_bank: TopicHarness, monkeypatch: pytest.MonkeyPatch, batch_sizes: list[int]
) -> None:
    """A batch that waits for its turn grows. Here the first poll returns one command, and the second poll the rest."""
    single_bank.send(*mixed_commands(20))
    original = DecideLoop._poll

    def poll_single_command_first(
        loop: DecideLoop, limit: int, timeout: float, collect_at: float = 0.0
    ) -> Any:
        return original(loop, 1 if timeout else limit, timeout, collect_at)

    monkeypatch.setattr(DecideLoop, "_poll", poll_single_command_first)
    run_plan(single_bank.plan(timing=SHORT_TIMEOUTS))
    assert batch_sizes == [20]
    single_bank.check()


@pytest.mark.covers("all-or-none")
def test_overfull_batch_is_halved_until_fitting(
    single_bank: TopicHarness, monkeypatch: pytest.MonkeyPatch, batch_sizes: list[int]
) -> None:
    single_bank.send(*mixed_commands(1000))

    def producer_with_small_queue(connection: Connection, **settings: Any) -> Any:
        return clients.producer(connection, **{**settings, "queue_buffering_max_messages": 600})

    monkeypatch.setattr(transactional, "producer", producer_with_small_queue)
    run_plan(single_bank.plan(timing=replace(SHORT_TIMEOUTS, produce_timeout=-1.0)))
    assert min(batch_sizes) < 600 < max(batch_sizes)
    assert len(batch_sizes) < 100
    single_bank.check()


@pytest.mark.parametrize("limit", [{"batch_seconds": 0.0}, {"batch_bytes": 1}, {"piece_size": 3}], ids=str)
def test_cut_batches_decide_everything(single_bank: TopicHarness, limit: dict[str, Any]) -> None:
    """A batch ends early at its limit of time or memory. The remaining commands are decided in the next batches."""
    single_bank.send(*mixed_commands(50))
    run_plan(single_bank.plan(timing=replace(SHORT_TIMEOUTS, **limit)))
    single_bank.check()


def test_small_cache_decides_everything(single_bank: TopicHarness) -> None:
    """Batches, changes of the shard and the rebuild of a lost shard are cut after every other state."""
    single_bank.send(*mixed_commands(50))
    run_plan(replace(single_bank.plan(), cache_bytes=2500))
    single_bank.check()
    run_plan(replace(single_bank.plan(machine="new"), cache_bytes=2500))
    single_bank.check("new")


def test_oversized_record_is_found_quickly(single_bank: TopicHarness, batch_sizes: list[int]) -> None:
    commands = list(mixed_commands(150))
    single_bank.send(*commands[:77], commands[0]._replace(value=os.urandom(9000)), *commands[77:])
    plan = single_bank.plan()
    single_bank.configure("dead-letters", "max.message.bytes", "3000")
    run_plan(plan)
    assert batch_sizes.count(1) >= 2 and len(batch_sizes) < 40


@pytest.mark.covers("bad-input")
def test_command_out_of_memory_is_retried(counters: TopicHarness, batch_sizes: list[int]) -> None:
    """A command that runs out of memory in a large batch is retried alone, and accepted.

    Only failures of the command alone are counted.
    """
    failures_alone = iter([True] * (ATTEMPTS - 1))

    def fail_in_large_batches(state: Counter) -> None:
        if state.value == 70 and (batch_sizes[-1] > 1 or next(failures_alone, False)):
            raise MemoryError

    counters.send(*increment_commands(100))
    assert run_failing_owner(counters, fail_in_large_batches) == []
    assert len(batch_sizes) < 20 and next(failures_alone, None) is None
    counters.check()


@pytest.mark.covers("bad-input")
@pytest.mark.parametrize("error", [MemoryError("no"), OSError(24, "Too many open files"), SystemExit(1)])
def test_permanent_process_error_fails_one_command(
    counters: TopicHarness, batch_sizes: list[int], error: BaseException
) -> None:
    def fail_always(state: Counter) -> None:
        if state.value == 7:
            raise type(error)(*error.args)  # a kept error would keep its frames, and thus the owner

    counters.send(*increment_commands(8), *increment_commands(2, "b", first=8))
    (note,) = run_failing_owner(counters, fail_always)
    assert "counter.commands partition 0 offset 7 failed: " in note
    assert batch_sizes.count(1) >= ATTEMPTS
    failed = [outcome.data for outcome in counters.outcomes() if outcome.data.status != "accepted"]
    assert [(data.offset, data.reason) for data in failed] == [(7, "HANDLER_ERROR")]
    assert f"(tried alone {ATTEMPTS} times)" in str(failed[0].message)
    assert len(counters.outcomes()) == 10
    assert counters.violations() == []


@pytest.mark.parametrize(("apply_interval", "is_shared"), [(0.0, False), (3600.0, True)])
def test_small_batches_share_lmdb_transactions(
    counters: TopicHarness, apply_interval: float, is_shared: bool
) -> None:
    """With a long interval the shard changes after recovery, after the first batch, and at the end of the loop."""
    applied: list[None] = []
    counters.send(*increment_commands(20))
    timing = replace(SHORT_TIMEOUTS, batch_limit=1, apply_interval=apply_interval)
    with failpoints.call_at("apply.after", lambda: applied.append(None), times=100):
        run_plan(counters.plan(timing=timing))
    assert (len(applied) < 20) is is_shared
    counters.check()


def test_late_single_record_is_retried(counters: TopicHarness, batch_sizes: list[int]) -> None:
    def late() -> None:
        raise BatchLateError("not written in time")

    counters.send(*increment_commands(1))
    with failpoints.call_at("produce.first", late, times=3):
        run_plan(counters.plan())
    assert batch_sizes == [1] * 4
    counters.check()


@pytest.fixture
def throttled_plan(single_bank: TopicHarness) -> Iterator[Plan]:
    """The plan of a run whose writes are throttled."""
    plan = single_bank.plan()
    throttled_connection = replace(
        plan.connection, properties={**plan.connection.properties, "client.id": single_bank.topics.prefix}
    )
    with raw_client(single_bank.connection) as client:
        client.limit_writing(single_bank.topics.prefix, 60_000)
        yield replace(plan, connection=throttled_connection)
        client.limit_writing(single_bank.topics.prefix, None)


@pytest.mark.covers("all-or-none")
def test_slow_batch_is_halved_until_committed(single_bank: TopicHarness, throttled_plan: Plan) -> None:
    single_bank.send(*mixed_commands(2000))
    plan = replace(
        throttled_plan, end_offsets={Partition("bank_account", 0): single_bank.stable_end("commands")}
    )
    assert OwnerProcess(plan, batch_limit=2000, apply_every=1000, **TRANSACTION_TIMEOUTS).error() is None
    single_bank.check()


@pytest.mark.slow
@pytest.mark.covers("all-or-none")
def test_absent_broker_blames_no_batch(prefix: str, tmp_path: Path) -> None:
    with broker(tmp_path) as kafka:
        counters = TopicHarness(kafka.connection, prefix, tmp_path)
        counters.send(*increment_commands(1))
        owner = OwnerProcess(counters.plan(), "offsets.after:2:stop", **TRANSACTION_TIMEOUTS)
        eventually(owner.is_paused)
        kafka.signal(signal.SIGSTOP)
        threading.Timer(
            2.5 * TRANSACTION_TIMEOUTS["transaction_timeout"], kafka.signal, [signal.SIGCONT]
        ).start()
        owner.signal(signal.SIGCONT)
        assert owner.error() is None
        counters.check()
