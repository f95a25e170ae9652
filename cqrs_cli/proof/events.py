"""Reads events for `verify`: checks that the events of one command are consecutive, complete and in order."""

from collections.abc import Iterable, Iterator

from cqrs_cli.codec.ciphertext import key_of_event
from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.fold import UnreadableEventError
from cqrs_cli.core.messages.event import HEADERS, EventEnvelope, read_event
from cqrs_cli.core.messages.json import read_members
from cqrs_cli.core.messages.payload_reference import ATTRIBUTES
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.index_entries import OFFSET_LIMIT, EventsEntry, IndexWriter, text_checksum
from cqrs_cli.proof.scope import PersonalScope, Scope, TimestampText


class Events:
    """Reads the events of a partition in the order of the log; call `finish_events` after the last event."""

    def __init__(
        self, scope: Scope, writer: IndexWriter, outcome_writer: IndexWriter, findings: Findings
    ) -> None:
        self.count = 0
        self._scope = scope
        self._writer = writer
        self._outcome_writer = outcome_writer
        self._findings = findings
        self._timestamp_text = TimestampText()
        self._command_offset = -1
        #: The events that were read so far of the command at `_command_offset`.
        self._open_events: EventsEntry | None = None

    def read(self, records: Iterable[Record]) -> None:
        """Check the next records, and add them to the index."""
        for record in records:
            self.count += 1
            try:
                event = read_event(record.value)
                partition, command, index = _read_position(event)
                wrong_members = _wrong_members(record.value, event)
            except ValueError as error:
                self._findings.add_violation("events", record.offset, f"is not an event: {error}")
                continue
            if wrong_members:
                self._findings.add_violation(
                    "events", record.offset, f"has other members than an event: {wrong_members}"
                )
            for problem in self._problems(record, event, partition, command, index):
                self._findings.add_violation("events", record.offset, problem)
            if partition == self._scope.partition:
                self._add_event(record, event, command, index)

    @property
    def open_events(self) -> tuple[int, EventsEntry] | None:
        """The offset of the last command, and its events that were read so far; None before the first event."""
        return None if self._open_events is None else (self._command_offset, self._open_events)

    def continue_with(self, open_events: tuple[int, EventsEntry] | None) -> None:
        """Continue after an earlier verification, which returned `open_events`."""
        if open_events is not None:
            self._command_offset, self._open_events = open_events

    def finish_events(self, findings: Findings | None = None) -> None:
        """Add the events of the last command to the index. `findings`: receives violations of the order instead of the
        findings of this object.
        """
        if self._open_events is not None:
            after_loss = self._outcome_writer.topic_recreated and self._is_after_loss(
                self._open_events.offset
            )
            self._writer.add_entry(
                self._command_offset,
                self._open_events.offset,
                self._open_events,
                after_loss=after_loss,
                findings=findings,
            )
            self._open_events = None

    def _partition_of(self, key: bytes, offset: int) -> int | None:
        key_history = self._scope.key_history
        return (
            self._scope.partition_of(key)
            if key_history is None
            else key_history.partition_at_event(key, offset)
        )

    def _problems(
        self, record: Record, event: EventEnvelope, partition: int, command_offset: int, index: int
    ) -> Iterator[str]:
        key, scope = event.subject.encode(), self._scope
        if partition != scope.partition:
            yield f"is of a command on partition {partition}"
        elif (key_partition := self._partition_of(key, record.offset)) not in (None, scope.partition):
            yield f"is of {event.subject!r}, whose partition is {key_partition}"
        if scope.key_history is not None and (
            split := scope.key_history.split_between("events", command_offset, record.offset)
        ):
            yield f"is of command {command_offset}, but the split at command {split.commands} is at {split.events}"
        if event.eventindex != index:
            yield f"has the id {event.id!r} and the eventindex {event.eventindex}"
        if event.source != f"/cqrs/{scope.aggregate}" or event.specversion != "1.0":
            yield f"comes from {event.source!r}, in version {event.specversion!r} of CloudEvents"
        if not event.type.startswith(f"{scope.aggregate}.") and not (scope.personal and event.type == ERASED):
            yield f"has the type {event.type!r}, which is not one of {scope.aggregate}"
        if event.time != self._timestamp_text(record.timestamp):
            yield f"has the time {event.time!r}, its record {self._timestamp_text(record.timestamp)}"
        if record.headers != HEADERS:
            yield "has other headers than an event has"
        if record.key != key:
            yield f"is of {event.subject!r} under the key {record.key!r}"
        try:
            scope.decode_event(event)
        except (ValueError, UnreadableEventError) as error:
            yield f"cannot be read: {error}"
            return
        if scope.personal is not None:
            yield from _key_problems(scope.personal, event)

    def _add_event(self, record: Record, event: EventEnvelope, command_offset: int, index: int) -> None:
        events = self._open_events
        if (
            events is None
            or command_offset != self._command_offset
            or self._is_loss_between(events.offset, record.offset)
        ):
            self.finish_events()
            self._open_events = events = _index_entry(record, event, index)
            self._command_offset = command_offset
        if index < events.events_read:
            self._findings.add_violation("events", record.offset, f"repeats event {event.id}")
            return
        if index > events.events_read:
            problem = f"is event {event.id}, but event {events.events_read} is not before it"
            self._findings.add_violation("events", record.offset, problem)
        elif events.events_read and _index_entry(record, event, index, events) != events:
            problem = f"differs from the first event of command {command_offset}"
            self._findings.add_violation("events", record.offset, problem)
        events.events_read = index + 1
        if self._scope.personal is not None:
            self._add_key(record.offset, event, events)

    def _add_key(self, offset: int, event: EventEnvelope, events: EventsEntry) -> None:
        try:
            key = key_of_event(event)
        except ValueError:  # already reported
            return
        if key is None:
            return
        if events.kid is not None and (events.kid, events.is_erasure) != key:
            problem = f"names key {key.kid}, but an event of the same command key {events.kid}"
            self._findings.add_violation("events", offset, problem)
        events.kid, events.is_erasure = key

    def _is_loss_between(self, first_offset: int, offset: int) -> bool:
        """True if the accepted loss is between two events: then the events belong to two different commands, even if
        their command offsets are equal.
        """
        return self._is_after_loss(offset) and not self._is_after_loss(first_offset)

    def _is_after_loss(self, offset: int) -> bool:
        return self._scope.loss is not None and offset >= self._scope.loss.events_end


def _index_entry(
    record: Record, event: EventEnvelope, index: int, template: EventsEntry | None = None
) -> EventsEntry:
    """Return the index entry of a command's events, as derived from one event.

    `template`: an entry derived from another event of the command. Its offset, number of read events and key are
    copied, so that the two entries are equal if the events match.
    """
    offset, events_read = (record.offset, 0) if template is None else (template.offset, template.events_read)
    return EventsEntry(
        offset,
        record.timestamp,
        event.subject,
        event.causationid,
        event.correlationid,
        event.aggregateversion - index,
        event.eventcount,
        events_read,
        *((None, False) if template is None else (template.kid, template.is_erasure)),
        propagated_checksum=text_checksum(*event.propagated_texts()),
    )


def _wrong_members(value: bytes | None, event: EventEnvelope) -> str:
    """Return the names of JSON members that are missing, or that no owner writes; empty if all members are right."""
    expected_names = {name for name in event.__struct_fields__ if getattr(event, name) is not None}
    if event.datasha256 is not None:
        expected_names |= set(ATTRIBUTES)
    return ", ".join(sorted(expected_names ^ set(read_members(value or b""))))


def _key_problems(personal: PersonalScope, event: EventEnvelope) -> Iterator[str]:
    try:
        key_of_event(event)
    except ValueError as error:
        yield f"cannot be read: {error}"
        return
    if personal.damage_finder is not None:
        yield from personal.damage_finder.find_damaged_event_values(
            event.subject, event.id, bytes(event.data)
        )


def _read_position(event: EventEnvelope) -> tuple[int, int, int]:
    """Return partition, offset and index in an event's id; raise `ValueError` for an id that no owner writes."""
    partition, command, index = event.position()
    if f"{partition}/{command}/{index}" != event.id:
        raise ValueError(f"its id is {event.id!r}")
    if not index < event.eventcount < 2**31 or not index < event.aggregateversion < OFFSET_LIMIT:
        raise ValueError(
            f"its eventindex is {index}, eventcount {event.eventcount}, aggregateversion {event.aggregateversion}"
        )
    return partition, command, index
