"""The plan of a scan of an aggregate's events: the data that the driver sends to each task."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cqrs_cli.codec.record_codec import AS_STORED, RecordCodec
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.key_space import KeySpace, LogSegment


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The events to read, and the code to decode them."""

    connection: Connection
    topics: Topics
    package: str
    root: Path  # folder of the package; on a worker, the shipped archive
    bounds: Mapping[int, tuple[int, int]]  # partition → (start, end) offsets, for all partitions


@dataclass(frozen=True, slots=True)
class KeyScanPlan(ReadPlan):
    """The plan of a scan by key: each task reads all events of one partition's keys, also from parent partitions."""

    key_space: KeySpace

    def segments(self, partition: int, codec: RecordCodec = AS_STORED) -> list[LogSegment]:
        """Return the segments of the event logs that contain the partition's keys, the oldest first."""
        log = PartitionLog(self.connection, self.topics, partition, codec)
        return list(self.key_space.log_segments(log, self.bounds))
