"""The common parts of the plans and progress of process managers and projections.

A subscription reads the events of an aggregate's partitions. A handler turns events into results. A sink stores the
results together with the position up to which they are complete.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.clients import REQUEST_TIMEOUT
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topic_info import TopicInfo
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.followed_key_space import FollowedKeySpace
from cqrs_cli.keyspace.key_space import KeySpace, requested_key_space, visible_key_space

_P = TypeVar("_P")


class EventsTopic(NamedTuple):
    """An events topic in the cluster."""

    topic_id: str
    partitions: int  # partition count
    key_space: KeySpace  # the key space when the plan was created; it lacks later splits

    def is_child_partition(self, partition: int) -> bool:
        """Return True for a child partition. Its parents have earlier events of its keys."""
        return self.key_space.parent(partition) is not None


@dataclass(frozen=True, slots=True)
class SubscriptionPlan:
    """The events that a run reads, and the code that decodes them; equal for all its tasks."""

    connection: Connection
    package: str  # the package of the aggregates
    root: Path  # the project folder; on a worker the archive of the subscriptions
    partitioner: Partitioner
    events_topics: Mapping[str, EventsTopic]  # topic → description

    def read_key_space(self, source: EventPartition) -> KeySpace:
        """Return the current key space of the aggregate, with splits since the plan was created."""
        topic = self.events_topics[source.topic]
        if not topic.key_space.was_repartitioned:
            return topic.key_space
        return requested_key_space(
            self.connection, source.topics, self.partitioner, topic.partitions, REQUEST_TIMEOUT
        )

    def follow_key_space(self, source: EventPartition, interval: float = 0.0) -> FollowedKeySpace:
        """Return the key space of the aggregate, which is read again until the parent of a child partition has split.
        `interval`: minimum seconds between two reads.
        """
        return FollowedKeySpace(partial(self.read_key_space, source), interval)


def describe_events_topics(
    admin: Admin, connection: Connection, partitioner: Partitioner, aggregates: Iterable[Topics]
) -> dict[str, EventsTopic]:
    """Return the events topics of these aggregates; raises `ConfigurationError` if a topic is missing."""
    topics = {aggregate.events: aggregate for aggregate in aggregates}
    return {
        topic: EventsTopic(
            info.topic_id,
            info.partitions,
            visible_key_space(connection, topics[topic], partitioner, info.partitions),
        )
        for topic, info in describe_existing(admin, topics).items()
    }


def describe_existing(admin: Admin, topics: Collection[str]) -> dict[str, TopicInfo]:
    """Return the description of each topic; raises `ConfigurationError` if a topic is missing."""
    existing = admin.describe(topics)
    for topic in topics:
        if topic not in existing:
            raise ConfigurationError(f"topic {topic} does not exist", "create it: cqrs init")
    return existing


def event_partitions(
    aggregates: Iterable[Topics], events_topics: Mapping[str, EventsTopic]
) -> list[EventPartition]:
    """Return the partitions of the events of these aggregates."""
    return [
        EventPartition(topics.aggregate, topics.events, partition)
        for topics in aggregates
        for partition in range(events_topics[topics.events].partitions)
    ]


class SubscriptionResult(Protocol):
    """The result of a subscription: the number of handled events; start and end in seconds since the epoch."""

    @property
    def events(self) -> int: ...
    @property
    def started_at(self) -> float: ...
    @property
    def ended_at(self) -> float: ...


@dataclass(frozen=True, slots=True)
class SubscriptionProgress(Generic[_P]):
    """The positions that the sinks report as complete, and the ends of the logs at the last poll."""

    polled_at: float  # time of the last poll, monotonic seconds
    positions: Mapping[_P, int]  # subscribed partition → offset of the first event that is not complete
    ends: Mapping[_P, int]  # subscribed partition → end offset of its log
    events: int = 0  # number of handled events; 0 until the run ends
    seconds: float = 0.0  # duration of the run's work; 0 until the run ends
    resubmissions: int = 0  # number of resubmitted tasks

    def with_results(self, results: Sequence[SubscriptionResult], **totals: Any) -> Self:
        """Return the progress at the end of a run, with the events and the seconds of these results, and `totals`."""
        if not results:
            return self
        seconds = max(result.ended_at for result in results) - min(result.started_at for result in results)
        return replace(self, events=sum(result.events for result in results), seconds=seconds, **totals)

    @property
    def position(self) -> int:
        """The sum of all positions. It rises with every batch, so an unchanged sum shows that nothing happened."""
        return sum(self.positions.values())

    @property
    def partition_lags(self) -> dict[_P, int]:
        """Subscribed partition → number of offsets from the position to the end of the log."""
        return {
            partition: max(0, end - self.positions.get(partition, 0)) for partition, end in self.ends.items()
        }

    @property
    def lag(self) -> int:
        """The sum of all lags."""
        return sum(self.partition_lags.values())
