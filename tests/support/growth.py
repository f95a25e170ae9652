"""Partitions that grow on the real broker, and what became of the commands meanwhile."""

from collections import Counter

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.growth import Grow
from cqrs_cli.kafka.admin.growing import grow_topics, make_lineage
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.lineage_log import read_lineage, wish
from cqrs_cli.kafka.topics.partitioner import target
from cqrs_cli.scans.replay.fold import NOTHING, Total
from cqrs_cli.scans.replay.task import ReplayPlan, total_part
from tests.support.commands import Sent
from tests.support.harness import TopicHarness


def grow(harness: TopicHarness, count: int) -> None:
    """Let the topics grow, as an operator does. Records are sent by the new count from then on."""
    with Admin(harness.connection) as admin:
        make_lineage(admin, harness.topics)
        wish(harness.connection, harness.topics, Grow(harness.partitions, count))
        grow_topics(admin, harness.topics, count)
    harness.partitions = count
    harness.reconnect()


def lineage(harness: TopicHarness) -> PartitionLineage:
    return read_lineage(harness.connection, harness.topics, harness.partitions)


def grown_by_hand(harness: TopicHarness, count: int) -> None:
    """Let the topics grow as Kafka's own tools do: nobody wishes it."""
    with Admin(harness.connection) as admin:
        grow_topics(admin, harness.topics, count)


def stale(sent: Sent, count: int) -> Sent:
    """A record as a client sends it that has not heard of a growth: by an older count."""
    return sent._replace(partition=target("murmur2", sent.key or b"", count))


def finals(harness: TopicHarness) -> dict[str, list[str]]:
    """The final outcomes of each command, by its id, without its repetitions."""
    found: dict[str, list[str]] = {}
    for partition in range(harness.partitions):
        for outcome in harness.outcomes(partition):
            if outcome.data.status not in ("deferred", "duplicate"):
                found.setdefault(outcome.causationid or "", []).append(outcome.data.status)
    return found


def reasons(harness: TopicHarness, partition: int) -> Counter[str]:
    """How often each reason was given in a partition; of an accepted command the status."""
    outcomes = harness.outcomes(partition)
    return Counter(one.data.reason or one.data.status for one in outcomes)


def story(harness: TopicHarness, subject: str) -> list[tuple[int, str]]:
    """Version and command of an aggregate's events, read along its chain."""
    known = lineage(harness)
    found = []
    for partition in known.chain(target("murmur2", subject.encode(), known.counts[-1])):
        events = [read_event(record.value) for record in harness.records("events", partition)]
        found += [(one.aggregateversion, one.causationid or "") for one in events if one.subject == subject]
    return found


def replayed(plan: ReplayPlan) -> Total:
    """The total of a replay, its tasks one after the other."""
    total = NOTHING
    for task in plan.tasks:
        result = total_part(plan, task)
        assert result.error is None, result.error
        total = total.plus(result.total)
    return total
