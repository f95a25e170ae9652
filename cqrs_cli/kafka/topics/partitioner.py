"""Computes the partition of a key. With two partitioners, one aggregate would exist in two partitions, so all senders
must use the same partitioner.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from confluent_kafka import consistent, murmur2

from cqrs_cli.core.messages.record import Record

Partitioner = Literal["murmur2", "crc32", "none"]

#: Partitioner → function from a key and the partition count to the key's partition.
_HASHES: dict[str, Callable[[bytes, int], int]] = {
    "murmur2": murmur2,  # the default of Java and kafka-python, and `murmur2_random` in librdkafka
    "crc32": consistent,  # librdkafka's default
}


def partition_for(partitioner: Partitioner, key: bytes, partitions: int) -> int | None:
    """Return the partition of `key`; None if the partitioner is `none`: then the key may be in any partition."""
    hash_key = _HASHES.get(partitioner)
    return hash_key(key, partitions) if hash_key else None


def partition_function(partitioner: Partitioner, partitions: int) -> Callable[[bytes], int] | None:
    """Return `partition_for` for a fixed partition count, as a fast function; None if the partitioner is `none`."""
    hash_key = _HASHES.get(partitioner)
    return None if hash_key is None else lambda key: hash_key(key, partitions)


class KeyFilter(NamedTuple):
    """Matches the keys that belong to `partition` if there are `partition_count` partitions."""

    partitioner: Partitioner
    partition_count: int
    partition: int

    def matches(self, key: bytes) -> bool:
        """True if the key belongs to the partition; always True if the partitioner is `none`."""
        return partition_for(self.partitioner, key, self.partition_count) in (self.partition, None)

    def matching(self, records: list[Record]) -> list[Record]:
        """Return the records whose keys match."""
        partitioner, partition_count, partition = self
        hash_key = _HASHES.get(partitioner)
        if hash_key is None:
            return records
        return [
            record
            for record in records
            if record.key is not None and hash_key(record.key, partition_count) == partition
        ]


def producer_partition(partitioner: Partitioner, key: bytes, partitions: int) -> int:
    """Return the partition to which cqrs sends a record with this key. For the partitioner `none`, it uses Java's
    default, murmur2.
    """
    return _HASHES.get(partitioner, murmur2)(key, partitions)
