"""A deferred command as the topic `<agg>.deferred` and a shard keep it: whole, so that compaction loses nothing.

parked ──due, or released──► said again ──► decided: the entry ends
   ▲  │                        │  │
   │  └──cancelled─────────────┼──┴──► rejected, CANCELLED: the entry ends
   └───────another `Later`─────┘
"""

from datetime import datetime
from typing import NamedTuple, Protocol

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.timestamps import milliseconds_of

#: The last moment that has a text, ms: 9999-12-31T23:59:59.999Z.
LAST_MOMENT = 253_402_300_799_999


def due_of(moment: datetime) -> int:
    """The time at which a command with this `notbefore` is due, ms."""
    return min(milliseconds_of(moment), LAST_MOMENT)


class EntryKey(NamedTuple):
    """The place of the command that an entry is of. `partition`: if another one than the entry's has deferred it."""

    topic: str  # the id of the commands topic
    offset: int
    partition: int | None = None

    def __str__(self) -> str:
        """The key of its records: an offset alone is not unique once the topic was made again, or has grown."""
        if self.partition is None:
            return f"{self.topic}/{self.offset}"
        return f"{self.topic}/{self.partition}/{self.offset}"


class _Value(Struct, frozen=True, gc=False, omit_defaults=True):
    """The value of a record; the command's place is its key."""

    subject: str
    id: str
    fingerprint: int
    version: int
    timestamp: int
    due: int
    attempt: int
    reason: str
    command: Raw
    said: int | None = None
    topic: str = ""
    cancelled: bool = False


class Deferral(Struct, frozen=True, gc=False):
    """One deferred command, from the decision to defer it until its final outcome.

    `said` is the offset at which it stands in the commands again, in the topic with the id `said_topic`; None while it
    is parked. A cancelled one is said again, too: so it has a final outcome under its own id.
    """

    topic: str  # the id of the commands topic that its record lies in
    offset: int  # of that record
    subject: str
    id: str
    fingerprint: int
    version: int  # of the aggregate, as its outcome told
    timestamp: int  # of its record, ms
    due: int  # ms
    attempt: int  # how often `decide` has put it off
    reason: str  # NOT_YET or LATER
    command: bytes  # the CloudEvent to be said again, its data verbatim
    said: int | None = None
    said_topic: str = ""
    cancelled: bool = False
    partition: int | None = None  # of that record, if another one than the entry's: inherited from a parent

    @property
    def key(self) -> str:
        """The key of its records."""
        return str(EntryKey(self.topic, self.offset, self.partition))

    @property
    def inherited_from(self) -> int | UnsetType:
        """The partition of its record, as outcomes tell it: unset for the entry's own."""
        return UNSET if self.partition is None else self.partition

    @property
    def is_parked(self) -> bool:
        """True if it waits to be said again."""
        return self.said is None

    def place(self, topic: str, partition: int) -> str:
        """The text of `deferredfrom` in a partition whose commands topic has this id."""
        own = f"{partition if self.partition is None else self.partition}/{self.offset}"
        return own if topic == self.topic else f"{self.topic}/{own}"

    def resubmitted(self, place: str) -> bytes:
        """The command's document with `deferredfrom`."""
        return self.command[:-1] + b',"deferredfrom":"%s"}' % place.encode()

    def value(self) -> bytes:
        """The value of its record."""
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
                self.said,
                self.said_topic,
                self.cancelled,
            )
        )


_decode = msgspec.json.Decoder(_Value).decode


def read_deferral(key: bytes | None, value: bytes) -> Deferral:
    """The entry in a record of the deferred topic; raises `ValueError` for any other record."""
    place = read_deferral_key(key)
    read = _decode(value)
    return Deferral(
        place.topic,
        place.offset,
        read.subject,
        read.id,
        read.fingerprint,
        read.version,
        read.timestamp,
        read.due,
        read.attempt,
        read.reason,
        bytes(read.command),
        read.said,
        read.topic,
        read.cancelled,
        place.partition,
    )


def read_deferral_key(key: bytes | None) -> EntryKey:
    """The place in a key; raises `ValueError`."""
    text = (key or b"").decode()
    topic, *numbers = text.split("/")
    if not (1 <= len(numbers) <= 2 and all(one.isascii() and one.isdigit() for one in numbers)):
        raise ValueError(f"its key is {key!r:.100}")
    return EntryKey(topic, int(numbers[-1]), int(numbers[0]) if len(numbers) == 2 else None)


def key_of_place(place: str, topic: str, own: int) -> EntryKey:
    """The key of the entry that a `deferredfrom` names in the partition `own` of a commands topic with this id."""
    before, _, offset = place.rpartition("/")
    named, _, partition = before.rpartition("/")
    return EntryKey(named or topic, int(offset), None if int(partition) == own else int(partition))


class DeferredView(Protocol):
    """The entries of a partition, in one consistent look."""

    def find(self, key: str) -> Deferral | None:
        """The entry under a key."""

    def of_id(self, subject: str, command_id: str) -> Deferral | None:
        """The entry of a command."""

    def said_at(self, topic: str, offset: int) -> Deferral | None:
        """The entry whose command stands again at this offset."""

    def said(self) -> list[Deferral]:
        """All entries that are said again and not decided."""

    def due(self, until: int, most: int) -> list[Deferral]:
        """The first `most` parked entries that are due at this time (ms), by due time."""

    def next_due(self) -> int | None:
        """The earliest due time of a parked entry, ms."""

    def is_empty(self) -> bool:
        """True if there is no entry."""
