"""A reader of a whole log reads each record once, and a key's records in order, after any repartitionings."""

from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.segments import PartitionCounts
from cqrs_cli.kafka.topics.partitioner import target_partition
from cqrs_cli.kafka.topics.topics import Topics
from tests.support.partition_histories import lineages, partitions_that_decide

KEYS = st.binary(min_size=1, max_size=8)
BOUNDS = dict.fromkeys(range(24), (0, 9))


def log(partition: int) -> PartitionLog:
    return PartitionLog(Connection("localhost:1"), Topics("bank"), partition)


@given(lineages(), KEYS)
def test_one_home_reads_a_key(lineage: PartitionLineage, key: bytes) -> None:
    """The reader follows the segments of the key, including its current partition, at any stage of the splits."""
    chains = PartitionCounts(lineage.counts, "murmur2")
    links = (list(chains.segments(log(home), BOUNDS)) for home in chains.current_partitions)
    read = [
        [one.log for one in some if not one.log.key_filter or one.log.key_filter.matches(key)]
        for some in links
    ]
    (decides,) = partitions_that_decide(lineage, lambda count: target_partition("murmur2", key, count))
    if chains.were_raised:
        (mine,) = filter(None, read)
        assert decides in {one.partition for one in mine}


def test_aggregate_that_never_grew_is_not_filtered() -> None:
    (link,) = PartitionCounts((4,), "murmur2").segments(log(3), BOUNDS)
    assert link.log == log(3)
