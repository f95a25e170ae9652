"""A process manager follows a repartitioning: it gets each event once, and no event from before its start."""

from collections import Counter
from collections.abc import Iterator

import pytest

from cqrs_cli import failpoints
from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.following.processes.topics import events_topic_identity
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import require_all_partitions
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.added_partitions import add_partitions, create_lineage_topic
from cqrs_cli.keyspace.records import Grow, LineageRecord, Split
from tests.following.processes.process_harness import (
    ProcessHarness,
    ThreadedRun,
    error_texts,
    expected_payments,
    run_in_this_process,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


class RepartitionedHarness(ProcessHarness):
    """A harness with orders on one partition, and later on two."""

    def _write_lineage(self, record: LineageRecord) -> None:
        producer = clients.producer(self.connection)
        producer.produce(Topics("order", self.prefix).lineage, record.encode())
        assert producer.flush(30) == 0

    def add_partition(self) -> None:
        """Add a partition. The parent has not split yet."""
        topics = Topics("order", self.prefix)
        with Admin(self.connection) as admin:
            create_lineage_topic(admin, topics)
            self._write_lineage(Grow(1, 2))
            add_partitions(admin, topics, 2)

    def record_split(self, events: int) -> None:
        """Record the split of partition 0; its target inherits the events before offset `events`."""
        self._write_lineage(Split(0, 1, 2, 0, events, 0, 0, 0))


@pytest.fixture
def harness(connection: Connection, prefix: str) -> Iterator[RepartitionedHarness]:
    yield RepartitionedHarness(connection, prefix)


def next_offset(harness: ProcessHarness) -> int:
    position = harness.position()
    assert position is not None
    return position.offset


def test_process_continues_over_a_repartitioning(harness: RepartitionedHarness) -> None:
    """The process manager has processed 0 up to the split, so it processes 1 from the first event on."""
    harness.place_orders(0, 5)
    harness.run_once(from_beginning=True)
    harness.add_partition()
    harness.record_split(next_offset(harness))
    harness.place_orders(0, 4, partition=1)
    harness.run_once()
    assert harness.payment_requests() == expected_payments(0, 5) + expected_payments(0, 4, 1)
    harness.run_once()
    assert harness.payment_requests() == expected_payments(0, 5) + expected_payments(0, 4, 1)


def test_target_waits_for_its_parent(harness: RepartitionedHarness) -> None:
    """Until 0 splits, 1 has no position. The active run notices the split."""
    harness.run_once(from_beginning=True)
    harness.add_partition()
    running = ThreadedRun(harness.plan(once=False))
    harness.place_orders(0, 5)
    eventually(lambda: harness.payment_requests() == expected_payments(0, 5))
    assert harness.position(1) is None
    harness.record_split(next_offset(harness))
    harness.place_orders(0, 4, partition=1)
    eventually(lambda: harness.payment_requests() == expected_payments(0, 5) + expected_payments(0, 4, 1))
    running.retire()
    assert error_texts(running.results) == []


def test_new_process_reads_the_parent_first(harness: RepartitionedHarness) -> None:
    """The process manager starts at the beginning after the split. Both partitions have events of the aggregate."""
    harness.place_orders(0, 5)
    harness.add_partition()
    harness.record_split(readers.bounds(harness.connection, harness.events, [0])[0][1])
    harness.place_orders(0, 4, partition=1)
    positions: list[object] = []
    with failpoints.call_at("claim.after", lambda: positions.append(harness.position(1))):
        harness.run_once(from_beginning=True)
    assert positions == [None]
    requested = [
        command["subject"] for command in harness.sent_commands() if command["type"] == "payment.Request"
    ]
    assert Counter(requested[:5]) == expected_payments(0, 5) and Counter(requested[5:]) == expected_payments(
        0, 4, 1
    )


def test_new_process_starts_after_the_split(harness: RepartitionedHarness) -> None:
    """The process manager starts after the split, at the end of all partitions."""
    harness.place_orders(0, 5)
    harness.add_partition()
    harness.record_split(0)
    harness.place_orders(0, 4, partition=1)
    harness.run_once()
    assert harness.payment_requests() == Counter()
    harness.place_orders(10, 3, partition=1)
    harness.run_once()
    assert harness.payment_requests() == expected_payments(10, 3, 1)


def test_earlier_process_reads_the_whole_target(harness: RepartitionedHarness) -> None:
    harness.place_orders(0, 5)
    harness.add_partition()
    harness.run_once()
    harness.record_split(next_offset(harness))
    harness.place_orders(0, 4, partition=1)
    harness.run_once()
    assert harness.payment_requests() == expected_payments(0, 4, 1)


def test_hidden_split_allows_planning(harness: RepartitionedHarness) -> None:
    """The planned run may be needed to end the transaction that hides the split."""
    harness.add_partition()
    writer = clients.producer(harness.connection, transactional_id=harness.prefix)
    writer.init_transactions(10)
    writer.begin_transaction()
    writer.produce(Topics("order", harness.prefix).lineage, Split(0, 1, 2, 0, 0, 0, 0, 0).encode())
    assert writer.flush(10) == 0
    assert harness.plan().events_topics[harness.events].is_child_partition(1)
    writer.abort_transaction(10)


def test_partitions_added_by_hand_are_refused(harness: RepartitionedHarness) -> None:
    harness.add_partition()
    with Admin(harness.connection) as admin:
        admin.add_partitions(harness.events, 3)
        eventually(lambda: len(admin.leader_flags(harness.events)) == 3)
    with pytest.raises(ConfigurationError, match="have 3 partitions, but its partition history ends with 2"):
        harness.plan()


def test_repartitioning_ends_the_run(harness: RepartitionedHarness) -> None:
    plan = harness.plan(once=False)
    harness.add_partition()
    sizes = events_topic_identity(plan, plan.subscriptions).check_ids()
    with pytest.raises(UnavailableError, match="has 2 partitions now, 1 of them are read"):
        require_all_partitions(sizes, [subscription.source for subscription in plan.subscriptions])
    assert error_texts(run_in_this_process(harness.plan())) == []
