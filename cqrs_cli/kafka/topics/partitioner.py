"""The partition that a key belongs to. All senders must agree, or one aggregate would live twice."""

from collections.abc import Callable
from typing import Literal, NamedTuple

from confluent_kafka import consistent, murmur2

from cqrs_cli.core.messages.record import Record

Partitioner = Literal["murmur2", "crc32", "off"]

_HASHES: dict[str, Callable[[bytes, int], int]] = {
    "murmur2": murmur2,  # Java's default, kafka-python's, and what `murmur2_random` does in librdkafka
    "crc32": consistent,  # librdkafka's default
}


def partition_for(partitioner: Partitioner, key: bytes, partitions: int) -> int | None:
    """The partition that `key` hashes to; None if the partitioner is off: it may be anywhere."""
    hashed = _HASHES.get(partitioner)
    return hashed(key, partitions) if hashed else None


def partition_function(partitioner: Partitioner, partitions: int) -> Callable[[bytes], int] | None:
    """`partition_for` with one number of partitions, for a hot path; None if the partitioner is off."""
    hashed = _HASHES.get(partitioner)
    return None if hashed is None else lambda key: hashed(key, partitions)


class KeyHome(NamedTuple):
    """The keys whose home among `among` partitions is `partition`."""

    partitioner: Partitioner
    among: int
    partition: int

    def has(self, key: bytes) -> bool:
        """True if the key is one of them; any key is where nobody checks."""
        return partition_for(self.partitioner, key, self.among) in (self.partition, None)

    def held(self, records: list[Record]) -> list[Record]:
        """The records of these keys."""
        hashed, among, partition = _HASHES.get(self.partitioner), self.among, self.partition
        if hashed is None:
            return records
        return [one for one in records if one.key is not None and hashed(one.key, among) == partition]


def target(partitioner: Partitioner, key: bytes, partitions: int) -> int:
    """The partition to send `key` to: its home, or Java's choice where nobody checks."""
    return _HASHES.get(partitioner, murmur2)(key, partitions)
