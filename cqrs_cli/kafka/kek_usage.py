"""Counts the records of a keys topic by key-encryption key (KEK). It needs no keyring: records name their KEK."""

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keys.partition_keys import key_record


class MasterUse(NamedTuple):
    """The number of records under one KEK."""

    keys: int  # current keys
    replaced: int  # replaced records that compaction has not removed yet

    @property
    def is_over(self) -> bool:
        """True if no record in the topic is under the KEK, so no reader needs it."""
        return not self.keys and not self.replaced


class KeysCount:
    """Counts the records of a keys topic, partition by partition, each in log order."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._latest: dict[bytes, str] = {}  # digest of the subject → KEK; a digest takes less memory
        self._records = Counter[str]()

    def read(self, partition: int, records: Iterable[Record]) -> None:
        """Count the next records; raises `ContradictionError` for a record that is not a key."""
        for record in records:
            _, wrapped = key_record(self._topic, partition, record)
            subject = blake2b(record.key or b"", digest_size=16).digest()
            if wrapped is None:
                self._latest.pop(subject, None)
            else:
                self._latest[subject] = wrapped.master
                self._records[wrapped.master] += 1

    def masters(self) -> Mapping[str, MasterUse]:
        """Return the use of each KEK that the topic names, by name."""
        in_force = Counter(self._latest.values())
        return {
            name: MasterUse(in_force[name], count - in_force[name])
            for name, count in sorted(self._records.items())
        }


def masters_in_use(connection: Cluster, topics: Topics) -> Mapping[str, MasterUse]:
    """Return the use of each KEK, by name. Raises an error if the topic is missing or cannot be read to its end."""
    count = KeysCount(topics.keys)
    numbers = range(readers.partitions(connection, topics.keys))
    ends = readers.bounds(connection, topics.keys, numbers, "read_uncommitted")
    for number, (start, end) in ends.items():
        for records in readers.read(connection, topics.keys, number, start, end):
            count.read(number, records)
    return count.masters()
