"""The entry of a deferred command in the topic `<agg>.deferred` and in a shard, and its life cycle:

parked ──due, or released──► resubmitted ──► decided: the entry ends
   ▲  │                        │  │
   │  └──cancelled─────────────┼──┴──► rejected, CANCELLED: the entry ends
   └───────another `Later`─────┘

An entry contains the whole command, so compaction of the topic loses nothing.
"""

from datetime import datetime
from typing import Annotated, NamedTuple, Protocol

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.timestamps import milliseconds_of

#: The last time that RFC 3339 text can express, ms: 9999-12-31T23:59:59.999Z.
MAX_TIMESTAMP = 253_402_300_799_999


def due_of(moment: datetime) -> int:
    """Return the time in ms at which a command with this `notbefore` is due."""
    return min(milliseconds_of(moment), MAX_TIMESTAMP)


class EntryKey(NamedTuple):
    """The location of a deferred command's record, and the key of its entry. `partition` is set if another partition
    deferred the command.
    """

    topic_id: str  # of the commands topic
    offset: int
    partition: int | None = None

    def __str__(self) -> str:
        """Return the record key: `aBcD/120` or `aBcD/3/120`. The offset alone is not unique after a recreation of the
        topic or a repartitioning.
        """
        if self.partition is None:
            return f"{self.topic_id}/{self.offset}"
        return f"{self.topic_id}/{self.partition}/{self.offset}"


#: Ranges that readers check, because any client with access could write to the topic.
_Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]
_Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class _Value(Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True):
    """The value of an entry's record. The record's key contains the location of the command."""

    subject: str
    id: str
    fingerprint: _Number
    version: _Number
    timestamp: _Int64
    due: _Int64
    attempt: _Number
    reason: str
    command: Raw
    said: _Number | None = None  # `Deferral.resubmitted_offset`
    topic: str = ""  # `Deferral.resubmitted_topic_id`
    cancelled: bool = False


class Deferral(Struct, frozen=True, gc=False):
    """A deferred command, from its deferral until its final outcome.

    `resubmitted_offset` is the offset of the resubmitted command, in the commands topic with the id
    `resubmitted_topic_id`; None while the command is parked. A cancelled command is resubmitted, too, so that it has a
    final outcome under its own id.
    """

    topic_id: str  # of the commands topic with the deferred record
    offset: int  # of the deferred record
    subject: str
    id: str
    fingerprint: int
    version: int  # of the aggregate, as in the outcome of the deferral
    timestamp: int  # of the deferred record, ms
    due: int  # ms
    attempt: int  # the number of times that `decide` raised `Later`
    reason: str  # NOT_YET or LATER
    command: bytes  # the CloudEvent to resubmit, with its data verbatim
    resubmitted_offset: int | None = None
    resubmitted_topic_id: str = ""
    cancelled: bool = False
    partition: int | None = None  # of the deferred record, if the entry is inherited from a parent partition

    @property
    def key(self) -> str:
        """The key of the entry's records."""
        return str(EntryKey(self.topic_id, self.offset, self.partition))

    @property
    def inherited_from_partition(self) -> int | UnsetType:
        """The partition that deferred the command, as outcomes name it: unset if it is the entry's own partition."""
        return UNSET if self.partition is None else self.partition

    def passed_on_by(self, parent: int) -> "Deferral":
        """Return the entry as a child of the partition `parent` imports it: parked, with its first partition."""
        partition = parent if self.partition is None else self.partition
        return replace(self, partition=partition, resubmitted_offset=None, resubmitted_topic_id="")

    @property
    def is_parked(self) -> bool:
        """True if the command waits to be resubmitted."""
        return self.resubmitted_offset is None

    def deferredfrom(self, topic_id: str, partition: int) -> str:
        """Return the `deferredfrom` for a partition of the commands topic with this id, such as `3/120`."""
        location = f"{partition if self.partition is None else self.partition}/{self.offset}"
        return location if topic_id == self.topic_id else f"{self.topic_id}/{location}"

    def resubmission_document(self, deferredfrom: str) -> bytes:
        """Return the command's document with the attribute `deferredfrom`, such as `3/120`."""
        return self.command[:-1] + b',"deferredfrom":"%s"}' % deferredfrom.encode()

    def value(self) -> bytes:
        """Return the value of the entry's record."""
        return encode_json(
            _Value(
                self.subject,
                self.id,
                self.fingerprint,
                self.version,
                self.timestamp,
                self.due,
                self.attempt,
                self.reason,
                Raw(self.command),
                self.resubmitted_offset,
                self.resubmitted_topic_id,
                self.cancelled,
            )
        )


_decode_value = msgspec.json.Decoder(_Value).decode


def read_deferral(key: bytes | None, value: bytes) -> Deferral:
    """Return the entry of a record of the deferred topic; raises `ValueError` for any other record."""
    entry_key = read_deferral_key(key)
    decoded = _decode_value(value)
    return Deferral(
        entry_key.topic_id,
        entry_key.offset,
        decoded.subject,
        decoded.id,
        decoded.fingerprint,
        decoded.version,
        decoded.timestamp,
        decoded.due,
        decoded.attempt,
        decoded.reason,
        bytes(decoded.command),
        decoded.said,
        decoded.topic,
        decoded.cancelled,
        entry_key.partition,
    )


def read_deferral_key(key: bytes | None) -> EntryKey:
    """Return the location in a record's key; raises `ValueError` for a malformed key."""
    key_text = (key or b"").decode()
    topic_id, *numbers = key_text.split("/")
    are_int64 = all(text.isascii() and text.isdigit() and int(text) < 2**63 for text in numbers)
    if not (1 <= len(numbers) <= 2 and are_int64):
        raise ValueError(f"its key is {key!r:.100}")
    entry_key = EntryKey(topic_id, int(numbers[-1]), int(numbers[0]) if len(numbers) == 2 else None)
    if str(entry_key) != key_text:
        raise ValueError(f"its key is {key!r:.100} instead of {str(entry_key)!r:.100}")
    return entry_key


def entry_key_of(deferredfrom: str, topic_id: str, own_partition: int) -> EntryKey:
    """Return the key of the entry that the attribute `deferredfrom`, such as `3/120` or `aBcD/3/120`, names.

    The resubmitted command is in partition `own_partition` of the topic with the id `topic_id`.
    """
    location, _, offset = deferredfrom.rpartition("/")
    named_topic_id, _, partition = location.rpartition("/")
    return EntryKey(
        named_topic_id or topic_id, int(offset), None if int(partition) == own_partition else int(partition)
    )


class DeferredView(Protocol):
    """A consistent view of the entries of a partition."""

    def find_entry(self, key: str) -> Deferral | None:
        """Return the entry with this key, such as `aBcD/120`; None without such an entry."""

    def find_by_command_id(self, subject: str, command_id: str) -> Deferral | None:
        """Return the entry of a command; None if the command is not deferred."""

    def find_resubmitted_at(self, topic_id: str, offset: int) -> Deferral | None:
        """Return the entry whose command was resubmitted at this offset of the commands topic, or None."""

    def resubmitted_entries(self) -> list[Deferral]:
        """Return all entries whose commands are resubmitted and not yet decided."""

    def due_entries(self, until: int, max_entries: int) -> list[Deferral]:
        """Return the first `max_entries` parked entries that are due at the time `until` (ms), by due time."""

    def next_due(self) -> int | None:
        """Return the earliest due time of a parked entry, ms; None if no entry is parked."""

    def is_empty(self) -> bool:
        """True if there is no entry."""
