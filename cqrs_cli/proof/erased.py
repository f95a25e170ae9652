"""The erased aggregates of a log, and the personal data that their records still contain. Pure."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Struct

from cqrs_cli.codec.ciphertext import PlainFields, key_of_event, plain_fields
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.core.messages.reasons import CheckFailed
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.proof.keys import KeyEntry

#: The bytes that each `Erased` event contains, and few other events.
_ERASED_MARKER = b'"cqrs.Erased"'


class LastErasure(NamedTuple):
    """The last erasure of an aggregate."""

    version: int  # version of the aggregate after the `Erased` event
    partition: int  # partition of the erase command
    command_offset: int  # offset of the erase command
    time: int  # time of the `Erased` event, ms

    def is_after(self, partition: int, record: Record) -> bool:
        """True if the erasure came after a command record. Offsets of two partitions cannot be compared, so timestamps
        are compared if a repartitioning has moved the key.
        """
        return (
            record.offset < self.command_offset
            if partition == self.partition
            else record.timestamp <= self.time
        )


@dataclass(slots=True)
class ErasedAggregate:
    """An aggregate that was erased at least once, and the ids of its deleted data keys.

    `active_kid`: the id of the data key that is in the keys topic now, at `active_key_position` (partition, offset).
    """

    last: LastErasure
    erased_kids: set[str] = field(default_factory=set)
    active_kid: str | None = None
    active_key_position: tuple[int, int] = (0, 0)

    @property
    def key_entry(self) -> KeyEntry:
        """The key entry for `find_state_problems`, which then reports values that are encrypted with a deleted key."""
        return KeyEntry(None, tuple(self.erased_kids), 0, self.last.version)

    def surviving_key(self, kids: Container[str], version: int) -> str | None:
        """Return the id of the active key if it encrypts data from before the last erasure, else None.

        `kids`: ids of the keys that encrypt the data. `version`: the aggregate's version in the data. The result is
        also None if the active key is a deleted key that is in the keys topic again: such a key is reported once, not
        for each record that it decrypts.
        """
        was_not_deleted = self.active_kid in kids and self.active_kid not in self.erased_kids
        return self.active_kid if was_not_deleted and version < self.last.version else None


def surviving_key_text(kid: str) -> str:
    """Return the message text for a key that `surviving_key` returns."""
    return f"key {kid}, which no erasure has deleted: anyone with the keyring can decrypt it"


class ErasedAggregates(dict[str, ErasedAggregate]):
    """Aggregate id → erased aggregate."""

    def read(self, records: Iterable[Record]) -> None:
        """Add the `Erased` events among `records`. The partitions may come in any order."""
        for record in records:
            if record.value is None or _ERASED_MARKER not in record.value:
                continue
            try:
                event = read_event(record.value)
                key = key_of_event(event)
                partition, command, _ = event.position()
            except ValueError:  # `cqrs verify` reports it
                continue
            if key is not None and key.is_erasure:
                erasure = LastErasure(event.aggregateversion, partition, command, parse_timestamp(event.time))
                aggregate = self.setdefault(event.subject, ErasedAggregate(erasure))
                aggregate.last = max(aggregate.last, erasure)
                aggregate.erased_kids.add(key.kid)

    def find_by_key(self, key: bytes | None) -> ErasedAggregate | None:
        """Return the erased aggregate with this record key, or None."""
        try:
            return self.get((key or b"").decode())
        except ValueError:
            return None

    @property
    def kids(self) -> set[str]:
        """The ids of all deleted data keys."""
        return {kid for aggregate in self.values() for kid in aggregate.erased_kids}


def plain_in_event(aggregate: Aggregate, event: EventEnvelope) -> PlainFields:
    """Return the plain-text personal fields of an event."""
    return plain_fields(aggregate.events.get(event.type), bytes(event.data))


def plain_in_command(commands: Mapping[str, type[Struct]], record: Record) -> PlainFields:
    """Return the plain-text personal fields in a command record; none if the record cannot be read."""
    try:
        envelope = read_command(record)
    except CheckFailed:
        return PlainFields([], set())
    return plain_fields(commands.get(envelope.type), bytes(envelope.data))
