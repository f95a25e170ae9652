"""The records of `<agg>.lineage`, the partition history of an aggregate."""

from msgspec import Struct
from msgspec.json import Decoder

from cqrs_cli.core.messages.json import encode_json


class Grow(Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """An operator's request to raise the number of partitions."""

    before: int
    after: int
    time: str = ""
    by: str = ""


def children_of(partition: int, before: int, after: int) -> range:
    """Return the partitions that get keys from `partition` when `before` partitions become `after`: 1, 4, 8 → 5."""
    return range(before + partition, after, before)


class Split(Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """The owner of a partition has handed over keys. The offsets are the ends of the partition's logs at that moment.

    The children inherit the records before these offsets. Records at or after them belong to the partition alone.
    """

    partition: int
    before: int  # the count by which it assigned keys until now
    after: int  # the count by which it assigns keys from now on
    commands: int  # its position
    events: int
    outcomes: int
    deferred: int
    clock: int  # the greatest timestamp of its decided commands, ms

    @property
    def children(self) -> range:
        """The partitions that get keys."""
        return children_of(self.partition, self.before, self.after)


class Begun(Struct, frozen=True):
    """A child has imported its inherited deferred commands into its own topic, and decides from now on."""

    partition: int


Growth = Grow | Split | Begun


class _Written(Struct, frozen=True, omit_defaults=True):
    """The value of a record: exactly one member is set."""

    grow: Grow | None = None
    split: Split | None = None
    begun: Begun | None = None


_decode = Decoder(_Written).decode


def growth_value(growth: Growth) -> bytes:
    """Return the value of the record."""
    match growth:
        case Grow():
            return encode_json(_Written(grow=growth))
        case Split():
            return encode_json(_Written(split=growth))
        case Begun():
            return encode_json(_Written(begun=growth))


def read_growth(value: bytes | None) -> Growth:
    """Return the request, split or begun in a record; raises `ValueError` for any other record."""
    if value is None:
        raise ValueError("a null value says nothing")
    try:
        written = _decode(value)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    said = [one for one in (written.grow, written.split, written.begun) if one is not None]
    if len(said) != 1:
        raise ValueError("it is not one of grow, split and begun")
    return said[0]
