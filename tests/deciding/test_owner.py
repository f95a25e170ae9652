"""The owner protocol on a real broker: owners come, go and are lost, and each command is decided once."""

import gc
import threading
from contextlib import closing
from dataclasses import replace

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from cqrs_cli import failpoints
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.stored import StoredState
from cqrs_cli.deciding.loop import DecideLoop
from cqrs_cli.deciding.owner import DecidingOwner
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.state.shard import open_shard
from cqrs_cli.state.store import Store, WriteBatch
from tests.support.commands import increment_commands, mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, running_owners
from tests.support.transactional_topic import abort_transaction
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def test_once_decides_everything_once(bank: TopicHarness) -> None:
    bank.send(*mixed_commands(400))
    run_plan(bank.plan())
    bank.check()
    for partition in range(2):
        offset, claim = bank.position_and_claim(partition)
        assert offset == bank.stable_end("commands", partition)
        assert claim and claim.counts.commands == len(bank.outcomes(partition))


def test_second_run_decides_only_new_commands(bank: TopicHarness) -> None:
    commands = list(mixed_commands(300))
    bank.send(*commands[:200])
    run_plan(bank.plan())
    bank.send(*commands[200:])
    run_plan(bank.plan())
    bank.check()


def test_reached_end_needs_no_assignment(counters: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that begins at its end offset assigns no partition, because an assignment waits for the first fetch. So a
    parent without commands to drain splits at once.
    """
    counters.send(*increment_commands(3))
    run_plan(counters.plan())
    assignments: list[list[TopicPartition]] = []

    def record_assignment(loop: DecideLoop) -> None:
        assignments.append(loop.session.consumer.assignment())

    monkeypatch.setattr(DecideLoop, "run_idle_work", record_assignment)
    run_plan(counters.plan())
    assert assignments == [[]]


def test_a_continuous_run_decides_new_commands(counters: TopicHarness) -> None:
    with running_owners(counters.plan(once=False)):
        counters.send(*increment_commands(3))
        counters.await_outcomes(3)
        counters.send(*increment_commands(3, first=3))
        counters.await_outcomes(6)
    counters.check()


@pytest.mark.covers("state-is-events")
def test_shard_ahead_of_the_log_is_dropped(counters: TopicHarness) -> None:
    """A shard with a batch that Kafka has lost after its commit (KAFKA-20734) is rebuilt."""
    counters.send(*increment_commands(3))
    run_plan(counters.plan())
    plan = counters.plan()
    (partition,) = plan.partitions()
    opened_shard = open_shard(plan.shard_folder(partition), plan.identity(partition, counters.aggregate))
    with closing(opened_shard.store) as shard:
        apply_lost_batch(shard)
    counters.send(*increment_commands(3, first=3))
    run_plan(counters.plan())
    counters.check()


def apply_lost_batch(store: Store) -> None:
    """Apply a batch that is not in the log."""
    old_positions = store.positions()
    lost_states = {"a": StoredState(9, 8, 0, b'{"value":9}')}
    store.apply(WriteBatch(store.token(), old_positions, old_positions._replace(commands=9), lost_states, {}))


@pytest.mark.covers("state-is-events")
def test_new_shard_ahead_of_log_is_rebuilt(counters: TopicHarness) -> None:
    """A shard ahead of the log is rebuilt, even if the same run has made it."""
    counters.send(*increment_commands(3))
    plan = counters.plan()
    (partition,) = plan.partitions()
    supervisor = DecidingSupervisor(plan, partition, counters.aggregate, 0, threading.Event())

    def lose_batch() -> None:
        assert supervisor.store is not None
        apply_lost_batch(supervisor.store)
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    with failpoints.call_at("decide.before", lose_batch):
        supervisor.run()
    assert supervisor.error is None
    counters.check()


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("outcome_count", [0, 10])
def test_lost_commit_reply_repeats_nothing(counters: TopicHarness, outcome_count: int) -> None:
    """The answers to two commits are lost: to two claims, or to a batch and a claim. No command is decided twice."""
    run_plan(counters.plan())
    counters.send(*increment_commands(10))
    lost_replies = [KafkaException(KafkaError(KafkaError._TIMED_OUT)) for _ in range(2)]

    def lose_reply() -> None:
        if lost_replies and len(counters.outcomes()) == outcome_count:
            raise lost_replies.pop()

    with failpoints.call_at("commit.after", lose_reply, times=100):
        run_plan(counters.plan())
    assert lost_replies == []
    counters.check()


def test_trailing_transaction_markers_are_no_lag(counters: TopicHarness) -> None:
    with running_owners(counters.plan(once=False)):
        client = producer(counters.connection, transactional_id=f"{counters.topics.prefix}client")
        client.init_transactions(10)
        client.begin_transaction()
        for sent in increment_commands(3):
            client.produce(counters.topics.commands, sent.value, sent.key, 0, headers=[*HEADERS])
        client.commit_transaction(10)
        eventually(lambda: counters.position_and_claim()[0] == counters.stable_end("commands") == 4)
    counters.check()


@pytest.mark.covers("one-outcome")
def test_an_aborted_command_is_never_decided(counters: TopicHarness) -> None:
    abort_transaction(counters.connection, counters.topics.commands, [b"aborted"])
    counters.send(*increment_commands(2))
    run_plan(counters.plan())
    assert [outcome.data.offset for outcome in counters.outcomes()] == [2, 3]
    counters.check()


class SupervisorIgnoringClaims(DecidingSupervisor):
    """A supervisor that ends after three owners, without reading the committed claim."""

    owners = 0

    def report(self, event: object, reaction: str = "") -> None:
        self.owners += 1
        if self.owners == 3:
            self.stopping.set()

    def _pause(self, seconds: float) -> None:
        self.stopping.wait(seconds)


@pytest.mark.usefixtures("without_warm_up")
def test_ended_owners_release_their_clients(counters: TopicHarness) -> None:
    """Each owner has its own clients, whose threads search for unreachable brokers: they must not accumulate."""
    timing = Timing(transaction_timeout=2.0, first_restart_delay=0.01, max_restart_delay=0.01)
    plan = replace(counters.plan(), connection=Connection("127.0.0.1:1"), store="memory", timing=timing)
    supervisor = SupervisorIgnoringClaims(
        plan, Partition("counter", 0), counters.aggregate, 0, threading.Event()
    )
    gc.unfreeze()  # garbage of earlier runs of this process
    gc.collect()
    gc.disable()
    try:
        supervisor.run()
        all_owners = (object for object in gc.get_objects() if isinstance(object, DecidingOwner))
        owners = [owner for owner in all_owners if owner.plan is plan]
    finally:
        gc.enable()
    assert supervisor.owners == 3 and owners == [supervisor.owner]
