"""The records of `<agg>.lineage`: how the number of an aggregate's partitions grew."""

from msgspec import Struct
from msgspec.json import Decoder

from cqrs_cli.core.messages.json import encode_json


class Grow(Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """An operator's wish: the topics are to have another number of partitions."""

    before: int
    after: int
    time: str = ""
    by: str = ""


def children_of(partition: int, before: int, after: int) -> range:
    """The partitions that get keys from one when `before` partitions become `after`."""
    return range(before + partition, after, before)


class Split(Struct, frozen=True, rename={"before": "from", "after": "to"}):
    """A partition's owner has given keys away. Offsets are of this partition's logs at that moment.

    Its records below the offsets are the inheritance of its children; everything behind them is its own.
    """

    partition: int
    before: int  # the count by which it judged
    after: int  # the count by which it judges from now on
    commands: int  # its position
    events: int
    outcomes: int
    deferred: int
    clock: int  # the greatest timestamp of the commands it has decided, ms

    @property
    def children(self) -> range:
        """The partitions that get keys."""
        return children_of(self.partition, self.before, self.after)


class Begun(Struct, frozen=True):
    """A child keeps its inherited deferred commands in its own topic, and decides from now on."""

    partition: int


Growth = Grow | Split | Begun


class _Written(Struct, frozen=True, omit_defaults=True):
    """A record's value: exactly one of the members is set."""

    grow: Grow | None = None
    split: Split | None = None
    begun: Begun | None = None


_decode = Decoder(_Written).decode


def growth_value(growth: Growth) -> bytes:
    """The value of the record."""
    match growth:
        case Grow():
            return encode_json(_Written(grow=growth))
        case Split():
            return encode_json(_Written(split=growth))
        case Begun():
            return encode_json(_Written(begun=growth))


def read_growth(value: bytes | None) -> Growth:
    """The growth that a record tells of; raises `ValueError` for any other record."""
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
