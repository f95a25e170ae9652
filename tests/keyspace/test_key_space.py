"""A reader of a whole log reads each record once, and a key's records in order, after any repartitionings."""

from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import target_partition
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.keyspace.key_space import PartitionCounts
from cqrs_cli.keyspace.lineage import PartitionLineage
from tests.support.partition_histories import lineages, partitions_that_decide

KEYS = st.binary(min_size=1, max_size=8)
BOUNDS = dict.fromkeys(range(24), (0, 9))


def log(partition: int) -> PartitionLog:
    return PartitionLog(Connection("localhost:1"), Topics("bank"), partition)


@given(lineages(), KEYS)
def test_one_reader_reads_a_key(lineage: PartitionLineage, key: bytes) -> None:
    """The reader follows the segments of the key, including its current partition, at any stage of the splits."""
    partition_counts = PartitionCounts(lineage.counts, "murmur2")
    segments = (
        list(partition_counts.segments(log(partition), BOUNDS))
        for partition in partition_counts.current_partitions
    )
    logs_with_key = [
        [
            segment.log
            for segment in partition_segments
            if not segment.log.key_filter or segment.log.key_filter.matches(key)
        ]
        for partition_segments in segments
    ]
    (deciding_partition,) = partitions_that_decide(
        lineage, lambda count: target_partition("murmur2", key, count)
    )
    if partition_counts.were_raised:
        (own_logs,) = filter(None, logs_with_key)
        assert deciding_partition in {segment.partition for segment in own_logs}


def test_unrepartitioned_aggregate_is_not_filtered() -> None:
    (segment,) = PartitionCounts((4,), "murmur2").segments(log(3), BOUNDS)
    assert segment.log == log(3)
