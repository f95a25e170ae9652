"""Notices that a topic was deleted, or made again: a reader may hear of that after minutes, or never.

A topic that was made again has the same name and other records. A reader goes on at its old offset there, so it misses
the beginning of the new log. Only the topic's id tells them apart.
"""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.cluster import Cluster

#: Seconds between two looks at the ids.
_EVERY = 5.0

#: The error for a topic that was made again, or that is not there (False); None if somebody else deals with that.
Changed = Callable[[str, bool], CqrsError | None]


class SeenTopic(NamedTuple):
    """A topic as it is now."""

    topic_id: str
    partitions: int


#: Those of the topics that exist.
Ask = Callable[[Collection[str]], Mapping[str, SeenTopic]]


class SameTopics:
    """The topics that a follower reads, by their ids: it ends when one is another."""

    def __init__(self, ids: Mapping[str, str], ask: Ask, changed: Changed, every: float = _EVERY) -> None:
        self._ids, self._ask, self._changed, self._every = ids, ask, changed, every
        self._looked = time.monotonic()

    def look(self) -> Mapping[str, int]:
        """`check` from time to time: else, and without a broker, nothing happens."""
        if time.monotonic() - self._looked >= self._every:
            with suppress(UnavailableError):
                return self.check()
        return {}

    def check(self) -> Mapping[str, int]:
        """The number of partitions of each topic, now.

        Raises the error of a topic that is another one by now; `UnavailableError` without a broker.
        """
        try:
            found = self._ask(self._ids.keys())
        finally:
            self._looked = time.monotonic()
        for topic, known in self._ids.items():
            is_same = topic in found and found[topic].topic_id == known
            if not is_same and (error := self._changed(topic, topic in found)) is not None:
                raise error
        return {topic: seen.partitions for topic, seen in found.items()}


def topic_ids(connection: Cluster, topics: Collection[str]) -> dict[str, str]:
    """The ids of those of these topics that exist."""
    return {topic: found.topic_id for topic, found in _see(connection, topics).items()}


def same_topics(connection: Cluster, ids: Mapping[str, str], changed: Changed) -> SameTopics:
    """The topics with these ids, on a cluster."""
    return SameTopics(ids, partial(_see, connection), changed)


def _see(connection: Cluster, topics: Collection[str]) -> dict[str, SeenTopic]:
    with Admin(connection) as admin:
        found = admin.describe(topics)
    return {topic: SeenTopic(info.topic_id, info.partitions) for topic, info in found.items()}
