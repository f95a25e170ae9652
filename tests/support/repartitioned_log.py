"""An events log of counters whose partitions are added while a test writes it, as owners would."""

from collections import Counter
from collections.abc import Iterable

from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # it is a public name

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import producer_partition
from cqrs_cli.kafka.topics.topics import KINDS, LINEAGE_CONFIGS, Topics
from cqrs_cli.keyspace.lineage import PartitionLineage
from cqrs_cli.keyspace.records import Begun, Grow, LineageRecord, Split
from tests.support.eventlog import counter_event, create_topics
from tests.support.partition_histories import partitions_that_decide
from tests.support.waiting import eventually


class GrowingCounters:
    """Counters in topics of `count` partitions. `lineage` has the contents of the lineage topic."""

    def __init__(self, connection: Connection, topics: Topics, count: int) -> None:
        self.connection, self.topics = connection, topics
        self.lineage = PartitionLineage((count,))
        self.versions: Counter[str] = Counter()
        self._events: Counter[int] = Counter()
        self._producer = clients.producer(connection)
        create_topics(connection, topics, count)

    def partition_of(self, subject: str) -> int:
        """Return the partition that decides a key now."""
        (partition,) = partitions_that_decide(
            self.lineage, lambda count: producer_partition("murmur2", subject.encode(), count)
        )
        return partition

    def increment(self, *subjects: str) -> None:
        """Append an event of each counter to the current partition of its key."""
        for subject in subjects:
            partition = self.partition_of(subject)
            self.versions[subject] += 1
            value = counter_event(
                subject, self.versions[subject], id=f"{partition}/{self._events[partition]}/0"
            )
            self._producer.produce(self.topics.events, value, subject, partition, headers=HEADERS)  # type: ignore[arg-type]
            self._events[partition] += 1
        assert self._producer.flush(30) == 0

    def stable_end(self, partition: int) -> int:
        """Return the end of a partition's events."""
        return readers.bounds(self.connection, self.topics.events, [partition])[partition][1]

    def request_repartitioning(self, count: int) -> None:
        """Write the repartition request and extend the topics. No partition is split yet."""
        if not self.lineage.was_repartitioned:
            with Admin(self.connection) as admin:
                admin.create(self.topics.lineage, 1, 1, LINEAGE_CONFIGS)
        self._append_record(Grow(self.lineage.counts[-1], count))
        admin_client = AdminClient(self.connection.librdkafka())
        names = [self.topics.name(kind) for kind in KINDS]
        for future in admin_client.create_partitions([NewPartitions(name, count) for name in names]).values():
            future.result(10)
        self._producer = clients.producer(self.connection)  # a client that knows all partitions
        for name in names:
            eventually(lambda name=name: readers.partition_count(self.connection, name) == count)  # type: ignore[misc]
            readers.bounds(self.connection, name, range(count))

    def split(self, *partitions: int) -> None:
        """Split these partitions, or all partitions that have not split yet."""
        for partition in partitions or self._partitions_in_phase("settle"):
            count, next_count = (
                self.lineage.active_count(partition),
                self.lineage.next_count(partition, self.lineage.counts[-1]),
            )
            assert count is not None and next_count is not None
            self._append_record(Split(partition, count, next_count, 0, self.stable_end(partition), 0, 0, 0))
            for target in self._partitions_in_phase("adopt"):
                self._append_record(Begun(target))

    def _partitions_in_phase(self, phase: str) -> Iterable[int]:
        last = self.lineage.counts[-1]
        return [number for number in range(last) if self.lineage.phase(number, last) == phase]

    def _append_record(self, record: LineageRecord) -> None:
        self.lineage = self.lineage.with_record(record)
        self._producer.produce(self.topics.lineage, record.encode())
        assert self._producer.flush(30) == 0


#: Ids of counters, which are spread over all of 16 partitions.
COUNTER_IDS = [f"c-{number}" for number in range(60)]
