"""Detects that a topic was deleted or recreated, which a consumer notices only after minutes, or never.

A recreated topic has the same name, but other records. A consumer continues at the old offset, so it misses the start
of the new log. Only the topic id shows that the topic was recreated.
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

#: (topic, was recreated) → the error for a topic that was recreated (True) or deleted (False); None to ignore the
#: change.
ErrorOfChange = Callable[[str, bool], CqrsError | None]


class SeenTopic(NamedTuple):
    """The current id and partition count of a topic."""

    topic_id: str
    partitions: int


#: Topic names → the topics of these names that exist.
DescribeTopics = Callable[[Collection[str]], Mapping[str, SeenTopic]]


class TopicIdentity:
    """Checks regularly that topics still have the ids that they had at first. `ids`: topic → id."""

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
        """Call `check_ids` if the last check is `interval` seconds ago. Return an empty dict if no check is due, or if
        no broker answers.
        """
        if time.monotonic() - self._checked_at >= self._interval:
            with suppress(UnavailableError):
                return self.check_ids()
        return {}

    def check_ids(self) -> Mapping[str, int]:
        """Return topic → current partition count.

        Raises the error of `error_of_change` for a topic that was recreated or deleted, `UnavailableError` if no broker
        answers.
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
