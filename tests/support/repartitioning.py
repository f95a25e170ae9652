"""Repartitionings on the real broker, and the outcomes of commands sent during them."""

from collections import Counter

from cqrs_cli.core.messages.event import read_event
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.topics.partitioner import producer_partition
from cqrs_cli.keyspace.added_partitions import add_partitions, create_lineage_topic
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.lineage_log import read_lineage, request_repartitioning
from cqrs_cli.keyspace.records import Grow
from cqrs_cli.scans.replay.fold import EMPTY_TOTAL, Total
from cqrs_cli.scans.replay.task import ReplayPlan, replay_part
from tests.support.commands import CommandRecord
from tests.support.harness import TopicHarness


def repartition_topics(harness: TopicHarness, count: int) -> None:
    """Repartition the topics, as an operator does. From now on records are sent with the new partition count."""
    with Admin(harness.connection) as admin:
        create_lineage_topic(admin, harness.topics)
        request_repartitioning(harness.connection, harness.topics, Grow(harness.partitions, count))
        add_partitions(admin, harness.topics, count)
    for kind in ("commands", "events", "outcomes"):  # waits until the new partitions have leaders
        readers.bounds(harness.connection, harness.topics.name(kind), range(count))
    harness.partitions = count
    harness.reconnect()


def current_lineage(harness: TopicHarness) -> PartitionLineage:
    return read_lineage(harness.connection, harness.topics, harness.partitions)


def add_partitions_by_hand(harness: TopicHarness, count: int) -> None:
    """Add partitions as Kafka's own tools do, without a repartition request."""
    with Admin(harness.connection) as admin:
        add_partitions(admin, harness.topics, count)


def with_stale_partition(record: CommandRecord, count: int) -> CommandRecord:
    """Return a record as a client with an outdated partition count sends it."""
    return record._replace(partition=producer_partition("murmur2", record.key or b"", count))


def final_statuses(harness: TopicHarness) -> dict[str, list[str]]:
    """Return the final outcomes of each command id, without duplicates."""
    outcomes_by_id: dict[str, list[str]] = {}
    for partition in range(harness.partitions):
        for outcome in harness.outcomes(partition):
            if outcome.data.status not in ("deferred", "duplicate"):
                outcomes_by_id.setdefault(outcome.causationid or "", []).append(outcome.data.status)
    return outcomes_by_id


def count_reasons(harness: TopicHarness, partition: int) -> Counter[str]:
    """Count the reasons of a partition's outcomes; an outcome without a reason counts by its status."""
    outcomes = harness.outcomes(partition)
    return Counter(outcome.data.reason or outcome.data.status for outcome in outcomes)


def event_history(harness: TopicHarness, subject: str) -> list[tuple[int, str]]:
    """Return version and command of an aggregate's events, along the partitions of its key."""
    history = current_lineage(harness)
    versions = []
    for partition, _ in history.segments(producer_partition("murmur2", subject.encode(), history.counts[-1])):
        events = [read_event(record.value) for record in harness.records("events", partition)]
        versions += [
            (event.aggregateversion, event.causationid or "") for event in events if event.subject == subject
        ]
    return versions


def replay_total(plan: ReplayPlan) -> Total:
    """Run the tasks of a replay in sequence, and return their total."""
    total = EMPTY_TOTAL
    for task in plan.tasks:
        result = replay_part(plan, task)
        assert result.error is None, result.error
        total = total.plus(result.total)
    return total
