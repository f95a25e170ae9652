"""Reads the progress of a repartitioning, for the status of each partition."""

from collections.abc import Mapping

from confluent_kafka import Consumer

from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.key_space import KeySpace, poll_key_space


class RepartitioningProgress:
    """Reads the progress of a repartitioning. It reads the partition history again only if the history has new
    records.
    """

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self._connection, self._topics = connection, topics
        self._key_space: KeySpace | None = None
        self._history_end = 0  # end offset of the partition history when it was last polled
        self._folded_until = 0  # end offset of the partition history when `_key_space` was read
        self._has_history = False  # True: the aggregate has a partition history

    def has_new_records(self, reader: Consumer) -> bool:
        """True if the partition history has new records since the last `poll_stages`."""
        topic = self._topics.lineage
        self._has_history = (
            self._has_history or readers.partition_count_with(self._connection, reader, topic) > 0
        )
        if self._has_history:
            self._history_end = readers.watermarks(reader, topic, 0)[1]
        return self._history_end != self._folded_until

    def poll_stages(self, partition_count: int) -> Mapping[int, str]:
        """Return partition → its stage; an empty mapping if no repartitioning is in progress."""
        if not self._has_history:
            return {}
        if self._key_space is None or self._history_end != self._folded_until:
            key_space = poll_key_space(self._connection, self._topics, partition_count)
            self._key_space, self._folded_until = key_space, self._history_end
        return self._key_space.stages(partition_count)
