"""Detects that a topic was deleted or recreated, which a consumer notices only after minutes, or never.

A recreated topic has the same name and other records. A consumer continues in it at the old offset, so it misses the
beginning of the new log. Only the topic id shows the difference.
"""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.cluster import Cluster

#: Seconds between two checks of the ids.
_CHECK_INTERVAL = 5.0

#: Returns the error for a topic that was recreated (True) or does not exist (False); None to ignore the change.
ErrorOfChange = Callable[[str, bool], CqrsError | None]


class SeenTopic(NamedTuple):
    """The current id and partition count of a topic."""

    topic_id: str
    partitions: int


#: Returns the topics that exist.
DescribeTopics = Callable[[Collection[str]], Mapping[str, SeenTopic]]


class TopicIdentity:
    """The topics that a follower reads, with their ids. It raises an error when an id changes."""

    def __init__(
        self,
        ids: Mapping[str, str],
        describe: DescribeTopics,
        error_of_change: ErrorOfChange,
        interval: float = _CHECK_INTERVAL,
    ) -> None:
        self._ids, self._describe = ids, describe
        self._error_of_change, self._interval = error_of_change, interval
        self._checked_at = time.monotonic()

    def check_if_due(self) -> Mapping[str, int]:
        """Call `check_ids` every few seconds; at other times, or if no broker answers, return an empty dict."""
        if time.monotonic() - self._checked_at >= self._interval:
            with suppress(UnavailableError):
                return self.check_ids()
        return {}

    def check_ids(self) -> Mapping[str, int]:
        """Return topic → its current partition count.

        Raises the error of `error_of_change` for a topic that was recreated or deleted, `UnavailableError` without a
        broker.
        """
        try:
            seen_topics = self._describe(self._ids.keys())
        finally:
            self._checked_at = time.monotonic()
        for topic, topic_id in self._ids.items():
            is_same = topic in seen_topics and seen_topics[topic].topic_id == topic_id
            if not is_same and (error := self._error_of_change(topic, topic in seen_topics)) is not None:
                raise error
        return {topic: described_topic.partitions for topic, described_topic in seen_topics.items()}


def topic_ids(connection: Cluster, topics: Collection[str]) -> dict[str, str]:
    """Return the ids of the topics that exist."""
    return {
        topic: described_topic.topic_id for topic, described_topic in _describe(connection, topics).items()
    }


def track_topics(
    connection: Cluster,
    ids: Mapping[str, str],
    error_of_change: ErrorOfChange,
    interval: float = _CHECK_INTERVAL,
) -> TopicIdentity:
    """Return a `TopicIdentity` that checks these topic ids on a cluster."""
    return TopicIdentity(ids, partial(_describe, connection), error_of_change, interval)


def _describe(connection: Cluster, topics: Collection[str]) -> dict[str, SeenTopic]:
    with Admin(connection) as admin:
        infos = admin.describe(topics)
    return {topic: SeenTopic(info.topic_id, info.partitions) for topic, info in infos.items()}
