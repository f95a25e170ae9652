"""The status of each partition that a process hears: its position, its owner, and the event that stopped it."""

from pathlib import Path
from typing import NamedTuple

from cqrs_cli.following.processes.explain import explain_trial
from cqrs_cli.following.processes.load import LoadedProcess
from cqrs_cli.following.processes.plan import Subscription, subscription_place
from cqrs_cli.following.processes.position import ProcessPosition, position_key
from cqrs_cli.following.processes.positions import recorded_positions
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.telemetry.blocked import blocked_by


class SubscriptionStatus(NamedTuple):
    """Events are in the log from `start` to `end`; `position` is None before the process has begun."""

    subscription: Subscription
    start: int
    end: int
    position: ProcessPosition | None
    blocked: str = ""  # what its owner waits for, if that is on this machine, and there are events

    @property
    def lag(self) -> int:
        """The number of events that are not reacted to yet; an upper bound, as offsets have holes."""
        return 0 if self.position is None else max(0, self.end - max(self.start, self.position.offset))

    @property
    def stopped_at(self) -> int | None:
        """The offset of the event that the process could not go past, while it stands there."""
        return None if self.position is None else self.position.stopped

    def remarks(self) -> list[str]:
        """Remarks for an operator, each with the way out."""
        found, at = [], self.stopped_at
        if at is not None:
            name, source = self.subscription.process, self.subscription.source
            found.append(
                f"process {name} was stopped by {source.topic}:{source.partition}@{at};"
                f" correct it, or leave the event out: cqrs process {name} --skip {self.subscription.place}@{at}"
            )
        elif self.lag and self.position is not None and self.position.claim.trial is not None:
            found.append(f"{self.subscription}: {explain_trial(self.position.claim.trial)}")
        if self.blocked:
            found.append(f"{self.subscription} waits: {self.blocked}")
        return found


def process_statuses(
    connection: Connection, loaded: LoadedProcess, prefix: str, state_dir: Path
) -> list[SubscriptionStatus]:
    """Every partition that the process hears; raises `ConfigurationError` if a topic does not exist."""
    topics, seen = ProcessTopics(loaded.name, prefix), list[SubscriptionStatus]()
    readers.partitions(connection, topics.positions)
    recorded = recorded_positions(connection, topics, "read_committed")
    for name in sorted(loaded.sources):
        topic = Topics(name, prefix).events
        numbers = range(readers.partitions(connection, topic))
        for number, (start, end) in readers.bounds(connection, topic, numbers, "read_uncommitted").items():
            source = EventPartition(name, topic, number)
            position = recorded.get(position_key(source))
            one = SubscriptionStatus(Subscription(loaded.name, source), start, end, position)
            place = subscription_place(state_dir, topics, topic, number)
            seen.append(one._replace(blocked=blocked_by(place) if one.lag else ""))
    return seen
