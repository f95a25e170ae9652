"""Reads the keys topic for the verification of one partition, and stores each aggregate's latest data key on disk."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

from cqrs_cli.codec.damage_finder import DamageFinder
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.keys_log import KafkaKeysLog
from cqrs_cli.kafka.topics.partitioner import KeyFilter
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.proof.key_records import KeyRecords, TopicKey, stored_key
from cqrs_cli.proof.key_topic import KeyVerification
from cqrs_cli.scans.verify.pairs import merge_aggregates
from cqrs_cli.scans.verify.plan import VerificationPlan
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.store import Store

#: Yields (aggregate id, encoded `KeyEntry`, key in the keys topic). The encoded entry is empty without a key entry.
KeyEntries = Iterator[tuple[str, bytes, TopicKey | None]]


class LatestKeys:
    """The latest data keys of a partition's aggregates in the keys topic."""

    def __init__(
        self, connection: Connection, topics: Topics, key_filter: KeyFilter, stack: ExitStack
    ) -> None:
        """Read the keys topic up to its high watermark, and wait until the transactions before it have ended.

        `key_filter`: matches the keys that belong to the partition.
        """
        self._connection, self._topics, self._key_filter = connection, topics, key_filter
        with tempfile.TemporaryDirectory(prefix="cqrs-verify-") as folder:
            self._store = LmdbStore(Path(folder), window_ms=1)
        stack.callback(self._store.close_without_sync)
        self._records = KeyRecords(self._store, key_filter.matches, self._is_misplaced)
        self._topic_partitions = 1
        if readers.topic_exists(connection, topics.keys):
            self._read_topic()

    @property
    def partition(self) -> int:
        """The partition of the keys topic that has the keys of the verified partition."""
        return self._key_filter.partition % self._topic_partitions

    def damage_finder(self) -> DamageFinder | None:
        """Return a `DamageFinder` that decrypts values with these keys; None if no keyring is configured."""
        if self._connection.keys is None:
            return None
        keyring, topic = self._connection.keys.load(), self._topics.keys
        return DamageFinder(
            self._topics.aggregate,
            self._records.current_key,
            lambda subject, wrapped: keyring.unwrap(topic, subject, wrapped),
        )

    def compare_with(
        self, verification: KeyVerification, key_entry_store: Store, later_events: Iterable[Record]
    ) -> None:
        """Compare the keys topic with the key entries that `verification` found in the events, and add violations.

        `key_entry_store`: the store of these key entries. `later_events`: the events after the verified range, whose
        keys may already be in the keys topic.
        """
        verification.add_violations(self._records.findings)
        verification.check_key_topic(
            self._aggregates_with_keys(key_entry_store), later_events, self._has_subject
        )

    def _has_subject(self, subject: str) -> bool:
        return self._key_filter.matches(subject.encode())

    def _aggregates_with_keys(self, key_entry_store: Store) -> KeyEntries:
        """Yield each aggregate of the partition that has a key entry, or a key in the keys topic."""
        for subject, key_entry, stored_record in merge_aggregates(
            key_entry_store.items(), self._store.items()
        ):
            if self._has_subject(subject):
                yield subject, b"" if key_entry is None else key_entry.state, stored_key(stored_record)

    def _read_topic(self) -> None:
        """Store the latest data keys of the topic's partition."""
        with closing(KafkaKeysLog(self._connection, self._topics)) as log:
            self._topic_partitions = log.partition_count()
            for records in log.read(self.partition, *log.bounds(self.partition)):
                self._records.read(records)

    def _is_misplaced(self, key: bytes) -> bool:
        """True if this record key belongs to another partition of the keys topic.

        If several partitions share a partition of the keys topic, only the verification of the first of them returns
        True, so that each misplaced key is reported once.
        """
        topic_key_filter = self._key_filter._replace(partition_count=self._topic_partitions)
        return self.partition == self._key_filter.partition and not topic_key_filter.matches(key)


def latest_keys(
    plan: VerificationPlan, aggregate: Aggregate | None, key_filter: KeyFilter, stack: ExitStack
) -> LatestKeys | None:
    """Return the data keys; None if the aggregate has no personal fields.

    If the code is missing (`aggregate` is None), a visible keys topic shows that the aggregate has personal fields.
    """
    connection, topics = plan.connection, plan.aggregate_topics.topics
    if not (
        _is_keys_topic_visible(connection, topics) if aggregate is None else aggregate.has_personal_fields
    ):
        return None
    return LatestKeys(connection, topics, key_filter, stack)


def _is_keys_topic_visible(connection: Connection, topics: Topics) -> bool:
    """True if the keys topic exists, and an ACL allows to describe it."""
    try:
        return readers.topic_exists(connection, topics.keys)
    except ConfigurationError:
        return False
