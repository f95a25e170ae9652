"""The master keys under which an aggregate's data keys are: counted in the keys topic, which nothing needs to open."""

from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keys.reading import key_record


class MasterUse(NamedTuple):
    """The records that are under one master key."""

    keys: int  # the keys in force
    replaced: int  # records that others have replaced, and that compaction has not removed yet

    @property
    def is_over(self) -> bool:
        """True if nothing in the topic is under it: no reader asks for it."""
        return not self.keys and not self.replaced


class KeysCount:
    """Counts the records of a keys topic, partition by partition, each in the order of its log."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._latest: dict[bytes, str] = {}  # of each subject; a digest takes less than the subject
        self._records = Counter[str]()

    def read(self, partition: int, records: Iterable[Record]) -> None:
        """Count the next records; raises `ContradictionError` for one that is not of a key."""
        for record in records:
            _, wrapped = key_record(self._topic, partition, record)
            subject = blake2b(record.key or b"", digest_size=16).digest()
            if wrapped is None:
                self._latest.pop(subject, None)
            else:
                self._latest[subject] = wrapped.master
                self._records[wrapped.master] += 1

    def masters(self) -> Mapping[str, MasterUse]:
        """The use of each master key that the topic names, by name."""
        in_force = Counter(self._latest.values())
        return {
            name: MasterUse(in_force[name], count - in_force[name])
            for name, count in sorted(self._records.items())
        }


def masters_in_use(connection: Cluster, topics: Topics) -> Mapping[str, MasterUse]:
    """The use of each master key, by name. Raises for a topic that is missing, or not read to its end."""
    count = KeysCount(topics.keys)
    numbers = range(readers.partitions(connection, topics.keys))
    ends = readers.bounds(connection, topics.keys, numbers, "read_uncommitted")
    for number, (start, end) in ends.items():
        for records in readers.read(connection, topics.keys, number, start, end):
            count.read(number, records)
    return count.masters()
