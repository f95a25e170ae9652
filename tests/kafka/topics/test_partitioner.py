"""Keys have the partitions that Java's and librdkafka's producers choose."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.topics.partitioner import KeyFilter, Partitioner, partition_for, producer_partition

KEYS = st.binary(min_size=1, max_size=40)
COUNTS = st.integers(1, 100)


@pytest.mark.covers("no-lost-update")
@given(KEYS, COUNTS)
def test_murmur2_is_javas(key: bytes, partitions: int) -> None:
    from kafka.partitioner import murmur2

    assert partition_for("murmur2", key, partitions) == (murmur2(key) & 0x7FFFFFFF) % partitions


@given(KEYS, COUNTS)
def test_crc32_is_librdkafkas(key: bytes, partitions: int) -> None:
    assert partition_for("crc32", key, partitions) == zlib.crc32(key) % partitions


def test_partitioner_none_sends_as_java() -> None:
    assert partition_for("none", b"acc-42", 4) is None
    assert producer_partition("none", b"acc-42", 4) == partition_for("murmur2", b"acc-42", 4)


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32"])
def test_keys_are_sent_to_their_partition(partitioner: str) -> None:
    assert producer_partition(partitioner, b"acc-42", 7) == partition_for(partitioner, b"acc-42", 7)  # type: ignore[arg-type]


@given(st.binary(min_size=1), st.integers(1, 64), st.integers(1, 16), st.sampled_from(["murmur2", "crc32"]))
def test_partitions_of_multiples_agree(key: bytes, count: int, factor: int, partitioner: Partitioner) -> None:
    """When partitions are added, a key stays in its partition, or moves to a child of its partition."""
    assert producer_partition(partitioner, key, count * factor) % count == producer_partition(
        partitioner, key, count
    )


def test_key_has_one_partition() -> None:
    records = [Record(0, 0, b"key-%d" % number, b"") for number in range(50)]
    records_by_partition = [
        KeyFilter("murmur2", 3, partition).matching([*records, Record(1, 0, None, b"")])
        for partition in range(3)
    ]
    assert sorted(
        record.key or b"" for partition_records in records_by_partition for record in partition_records
    ) == sorted(record.key or b"" for record in records)
    assert all(
        KeyFilter("murmur2", 3, partition).matches(record.key or b"")
        for partition, partition_records in enumerate(records_by_partition)
        for record in partition_records
    )
