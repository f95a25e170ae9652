"""The records of `<agg>.lineage`, the partition history of an aggregate."""

from typing import Annotated

from msgspec import Meta, Struct
from msgspec.json import Decoder

from cqrs_cli.core.messages.json import encode_json

#: Ranges that readers check, because any client with access could write to the topic.
_Count = Annotated[int, Meta(ge=1, lt=2**31)]
_Partition = Annotated[int, Meta(ge=0, lt=2**31)]
_Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Time = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Grow(Struct, frozen=True, forbid_unknown_fields=True, rename={"before": "from", "after": "to"}):
    """An operator's request to raise the number of partitions: `{"grow":{"from":4,"to":8,…}}`."""

    before: _Count  # the number of partitions before, `from` in JSON
    after: _Count  # the requested number of partitions, `to` in JSON
    time: str = ""
    by: str = ""  # the operator

    def encode(self) -> bytes:
        """Return the value of the record in Kafka."""
        return encode_json(_RecordValue(grow=self))


def children_of(partition: int, before: int, after: int) -> range:
    """Return the partitions that get keys from `partition` when `before` partitions become `after`: only 5 for
    `children_of(1, 4, 8)`.
    """
    return range(before + partition, after, before)


class Split(Struct, frozen=True, forbid_unknown_fields=True, rename={"before": "from", "after": "to"}):
    """The owner of a partition has handed over keys to child partitions.

    The offsets are the ends of the partition's logs at the split. The child partitions inherit the records before
    these offsets. Records at or after these offsets belong to the partition alone.
    """

    partition: _Partition
    before: _Count  # the partition count by which the owner assigned keys before the split
    after: _Count  # the partition count by which the owner assigns keys after the split
    commands: _Offset  # the owner's position: the offset of the next command to decide
    events: _Offset
    outcomes: _Offset
    deferred: _Offset
    clock: _Time  # the greatest timestamp of the partition's decided commands, ms

    @property
    def child_partitions(self) -> range:
        """The partitions that get keys."""
        return children_of(self.partition, self.before, self.after)

    def encode(self) -> bytes:
        """Return the value of the record in Kafka."""
        return encode_json(_RecordValue(split=self))


class Begun(Struct, frozen=True, forbid_unknown_fields=True):
    """A child has imported its inherited deferred commands, and decides from now on: `{"begun":{"partition":5}}`."""

    partition: _Partition

    def encode(self) -> bytes:
        """Return the value of the record in Kafka."""
        return encode_json(_RecordValue(begun=self))


LineageRecord = Grow | Split | Begun


class _RecordValue(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The value of a record: exactly one member is set."""

    grow: Grow | None = None
    split: Split | None = None
    begun: Begun | None = None


_decode = Decoder(_RecordValue).decode


def read_lineage_record(value: bytes | None) -> LineageRecord:
    """Return the content of a record; raises `ValueError` for any other record."""
    if value is None:
        raise ValueError("the value is null")
    try:
        decoded = _decode(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    records = [record for record in (decoded.grow, decoded.split, decoded.begun) if record is not None]
    if len(records) != 1:
        raise ValueError("it must contain one of grow, split and begun")
    return records[0]
