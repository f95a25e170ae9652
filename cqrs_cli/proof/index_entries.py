"""Index entries: the parts of outcomes, events and dead letters that are stored until their commands are read.

Each command has at most one entry per topic. Outcomes and events normally have the order of their commands, but a fault
may break the order. So the entries are stored in an index on disk by command offset, and read in that order.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol
from zlib import crc32

import msgspec
from msgspec import Struct

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import Findings, LogName
from cqrs_cli.proof.positions import CommandPosition
from cqrs_cli.proof.scope import Scope

#: Offsets and versions are below this number. A record with a greater number is invalid.
OFFSET_LIMIT = 2**63


def key_of(record: Record) -> bytes | None:
    """Return the key; None for an empty key, because some Kafka clients return None for it, and others empty bytes."""
    return record.key or None


class OutcomeEntry(Struct, array_like=True, gc=False):
    """The members of an outcome that verification needs."""

    offset: int  # offset of the outcome
    timestamp: int  # ms
    key: bytes | None
    type: str
    subject: str | None
    cause: str | None  # the command's id (`causationid`)
    correlation: str | None
    status: str
    reason: str
    version: int
    events: int
    expected: str | None
    fingerprint: int | None
    #: Of a duplicate: position, status, version, event count.
    original: tuple[CommandPosition, str, int, int] | None
    decidedat: str | None  # the time by the owner's clock; only in the outcome of an expired command
    deferredfrom: str | None = None
    target: tuple[CommandPosition, str] | None = None  # position and id of the command to cancel or release
    due: int | None = None  # ms; only for a deferred command
    attempt: int | None = None  # how often `decide` has deferred the command; also for GAVE_UP
    #: The partition to which the key has moved; also set for a command that is too large to forward.
    movedto: int | None = None
    #: The checksums of the message and of the propagated attributes; None in entries of an earlier release.
    message_checksum: int | None = None
    propagated_checksum: int | None = None

    @property
    def result(self) -> str:
        """The reason of the outcome, or its status if it has no reason."""
        return self.reason or self.status


class EventsEntry(Struct, array_like=True, gc=False):
    """The events of one command."""

    offset: int  # offset of the first event
    timestamp: int  # ms
    subject: str
    cause: str  # the command's id (`causationid`)
    correlation: str
    version: int  # version after the first event
    count: int  # number of the command's events, according to its first event
    events_read: int = 0  # number of the command's events that were read so far
    kid: str | None = None  # id of the data key that encrypts the personal fields
    is_erasure: bool = False  # True if the event is an `Erased`, which deletes the key
    propagated_checksum: int | None = None  # as in `OutcomeEntry`

    @property
    def last_version(self) -> int:
        """The version after the last event."""
        return self.version + self.count - 1


class DeadLetterEntry(Struct, array_like=True, gc=False):
    """A dead letter. The checksums are CRC-32."""

    offset: int  # offset of the dead letter
    timestamp: int  # ms
    key: bytes | None
    reason: str
    value_checksum: int | None  # of the command's value
    headers_checksum: int  # of the command's headers
    message_checksum: int | None = None  # of the reason's message; None in entries of an earlier release


class Lookup(Protocol):
    """Finds index entries by the position of their command: an offset or a `CommandPosition`."""

    def find_entry(self, command: Any, /) -> bytes | None: ...


class Index(Protocol):
    """Index entries by command offset, on disk, as implemented by `state.entry_index`."""

    def add_entry(self, command_offset: int, entry: bytes) -> bytes | None:
        """Add an entry. If the command already has an entry, return this entry and change nothing."""

    def find_entry(self, command_offset: int) -> bytes | None:
        """Return the entry of a command, or None."""

    def first_command(self) -> int | None:
        """Return the lowest offset of a command with an entry; None if there is no entry."""

    def last_command(self) -> int | None:
        """Return the highest offset of a command with an entry; None if there is no entry."""

    def delete_from(self, command_offset: int) -> int:
        """Delete the entries from a command on, and return their number."""

    def entries(self) -> Iterator[tuple[int, bytes]]:
        """Yield all entries by command. Exhaust the iterator before the next change."""


def text_checksum(*texts: str | None) -> int:
    """Return the CRC-32 of texts. Entries contain it instead of the texts, to save space."""
    return crc32(_encode(texts))


def checksums_differ(first: int | None, second: int | None) -> bool:
    """True if two checksums differ. A missing checksum (None), as in entries of an earlier release, equals any
    checksum.
    """
    return first is not None and second is not None and first != second


_encode: Callable[[Any], bytes] = msgspec.msgpack.Encoder().encode
_decode_members: Callable[[bytes], list[Any]] = msgspec.msgpack.Decoder(list[Any]).decode


def timestamp_of(entry: bytes) -> int:
    """Return the timestamp (ms) of an encoded entry of any type."""
    timestamp: int = _decode_members(entry)[1]
    return timestamp


class EarlierVerification(Protocol):
    """How far an earlier verification has read each topic.

    `last_commands`: topic → command offset of the last record that was read. `topic_recreated`: topic → True if a
    record of the topic has shown that the commands topic was recreated.
    """

    @property
    def last_commands(self) -> Mapping[LogName, int]: ...

    @property
    def topic_recreated(self) -> Mapping[LogName, bool]: ...


class IndexWriter:
    """Adds the index entries of one topic while its log is read, and reports records that are out of order."""

    def __init__(
        self,
        log: LogName,
        scope: Scope,
        index: Index,
        findings: Findings,
        earlier_verification: EarlierVerification | None = None,
    ) -> None:
        self.log = log
        self.index = index
        # The command offset of the last record that was read.
        self.last_command = -1 if earlier_verification is None else earlier_verification.last_commands[log]
        self.topic_recreated = earlier_verification is not None and earlier_verification.topic_recreated[log]
        self.first_command: int | None = None  # the lowest command offset of the records that were read
        self._loss = scope.loss
        self._findings = findings

    def add_entry(
        self,
        command_offset: int,
        offset: int,
        entry: Struct,
        *,
        after_loss: bool,
        findings: Findings | None = None,
    ) -> None:
        """Add the entry of a record at offset `offset`.

        `after_loss`: the record was written after an accepted loss, so its command may be in a recreated topic. If the
        record is then out of order, the entries of the old topic are deleted. `findings`: receives violations of the
        order instead of the findings of this object.
        """
        findings = self._findings if findings is None else findings
        is_out_of_order = command_offset <= self.last_command
        if is_out_of_order and after_loss and not self.topic_recreated and self._loss is not None:
            self._findings.accepted_losses += self.index.delete_from(self._loss.restart_command)
            self.topic_recreated = True
            is_out_of_order = False
        if self.first_command is None or command_offset < self.first_command:
            self.first_command = command_offset
        existing = self.index.add_entry(command_offset, _encode(entry))
        if existing is not None:
            findings.add_violation(
                self.log,
                offset,
                f"is of command {command_offset}, as is the record at offset {_decode_members(existing)[0]}",
            )
        elif is_out_of_order:
            findings.add_violation(
                self.log,
                offset,
                f"is of command {command_offset}, and comes after command {self.last_command}",
            )
        self.last_command = command_offset
