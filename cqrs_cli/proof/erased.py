"""The aggregates that the log calls erased, and what a record still tells of them. Pure."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Struct

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.core.messages.reasons import Refused
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.core.personal.sealed_data import personal_values
from cqrs_cli.core.personal.sealing import is_sealed
from cqrs_cli.core.personal.words import texts_in
from cqrs_cli.proof.keys import KeyTrace, key_of_event

#: Stands in each `Erased`, and in few other events.
_MARK = b'"cqrs.Erased"'


class LastErasure(NamedTuple):
    """The last erasure of an aggregate. `partition`, `command`: where its command stands; `time` in ms."""

    version: int
    partition: int
    command: int
    time: int

    def is_behind(self, partition: int, record: Record) -> bool:
        """True if it came after a command, which may be of another partition once the topics have grown."""
        return record.offset < self.command if partition == self.partition else record.timestamp <= self.time


@dataclass(slots=True)
class ErasedAggregate:
    """An aggregate that was erased, once or more often, and the keys that this ended.

    `in_force`: the key that its topic has now, at `place`, which is partition and offset.
    """

    last: LastErasure
    ended: set[str] = field(default_factory=set)
    in_force: str | None = None
    place: tuple[int, int] = (0, 0)

    @property
    def trace(self) -> KeyTrace:
        """The trace that a state of it is held against: nothing that is sealed with a key that has ended."""
        return KeyTrace(None, tuple(self.ended), 0, self.last.version)

    def opens(self, kids: Container[str], version: int) -> str | None:
        """The key in force if it is one of these, with which something of before the last erasure is sealed.

        `version`: of the aggregate then. None for a key that came back: that is told once, not with all that it opens.
        """
        is_spared = self.in_force in kids and self.in_force not in self.ended
        return self.in_force if is_spared and version < self.last.version else None


def still_opens(kid: str) -> str:
    """The words for the key that `opens` gives."""
    return f"key {kid}, which no erasure has ended: whoever has the ring can read it"


class ErasedAggregates(dict[str, ErasedAggregate]):
    """By their ids."""

    def read(self, records: Iterable[Record]) -> None:
        """Take in each `Erased` of some events, from partitions in any order."""
        for record in records:
            if record.value is None or _MARK not in record.value:
                continue
            try:
                event = read_event(record.value)
                key = key_of_event(event)
                partition, command, _ = event.position()
            except ValueError:  # `cqrs verify` reports it
                continue
            if key is not None and key.ends:
                erasure = LastErasure(event.aggregateversion, partition, command, parse_timestamp(event.time))
                one = self.setdefault(event.subject, ErasedAggregate(erasure))
                one.last = max(one.last, erasure)
                one.ended.add(key.kid)

    def of(self, key: bytes | None) -> ErasedAggregate | None:
        """The erased aggregate that a record with this key is of."""
        try:
            return self.get((key or b"").decode())
        except ValueError:
            return None

    @property
    def kids(self) -> set[str]:
        """All keys that were ended."""
        return {kid for one in self.values() for kid in one.ended}


class PlainFields(NamedTuple):
    """The personal fields of a message that stand in plain text, and their values as texts."""

    names: list[str]
    texts: set[str]


def plain_fields(cls: type[Struct] | None, data: bytes) -> PlainFields:
    """Those in the JSON of a message; none of a message whose class is gone, or that does not fit it."""
    if cls is None:
        return PlainFields([], set())
    try:
        names = [name for name, value in personal_values(cls, data).items() if not is_sealed(value)]
    except (ValueError, RecursionError):
        return PlainFields([], set())
    return PlainFields(names, texts_in(cls, data) if names else set())


def plain_in_event(aggregate: Aggregate, event: EventEnvelope) -> PlainFields:
    """Those of an event."""
    return plain_fields(aggregate.events.get(event.type), bytes(event.data))


def plain_in_command(commands: Mapping[str, type[Struct]], record: Record) -> PlainFields:
    """Those of a command, whose data are in its record; none of one that cannot be read."""
    try:
        envelope = read_command(record)
    except Refused:
        return PlainFields([], set())
    return plain_fields(commands.get(envelope.type), bytes(envelope.data))
