"""Read events: check that the events of one command are consecutive, complete and in order."""

from collections.abc import Iterable, Iterator

from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.fold import UnreadableEventError
from cqrs_cli.core.messages.event import HEADERS, EventEnvelope, read_event
from cqrs_cli.core.messages.json import read_members
from cqrs_cli.core.messages.payload_reference import ATTRIBUTES
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.keys import key_of_event
from cqrs_cli.proof.scope import Clock, PersonalScope, Scope
from cqrs_cli.proof.traces import LIMIT, EventsTrace, Traces, text_sum


class Events:
    """Reads the events of a partition in the order of the log; call `end` after the last event."""

    def __init__(self, scope: Scope, traces: Traces, outcomes: Traces, findings: Findings) -> None:
        self.count = 0
        self._scope = scope
        self._traces = traces
        self._outcomes = outcomes
        self._findings = findings
        self._time = Clock()
        self._command = -1
        self._open: EventsTrace | None = None  # the events of `_command` so far

    def read(self, records: Iterable[Record]) -> None:
        """Check the next records, and add them to the index."""
        for record in records:
            self.count += 1
            try:
                event = read_event(record.value)
                partition, command, index = _position(event)
                others = _other_members(record.value, event)
            except ValueError as error:
                self._findings.add("events", record.offset, f"is not an event: {error}")
                continue
            if others:
                self._findings.add("events", record.offset, f"has other members than an event: {others}")
            for problem in self._problems(record, event, partition, command, index):
                self._findings.add("events", record.offset, problem)
            if partition == self._scope.partition:
                self._add(record, event, command, index)

    @property
    def open(self) -> tuple[int, EventsTrace] | None:
        """The last command and its events so far; more events may follow."""
        return None if self._open is None else (self._command, self._open)

    def go_on(self, open: tuple[int, EventsTrace] | None) -> None:
        """Continue with the `open` events of an earlier verification."""
        if open is not None:
            self._command, self._open = open

    def end(self, findings: Findings | None = None) -> None:
        """Add the events of the last command to the index. `findings` receives violations of the order, if given."""
        if self._open is not None:
            after_loss = self._outcomes.began_again and self._is_after_loss(self._open.at)
            self._traces.keep(
                self._command, self._open.at, self._open, after_loss=after_loss, findings=findings
            )
            self._open = None

    def _home(self, key: bytes, at: int) -> int | None:
        homes = self._scope.homes
        return self._scope.home(key) if homes is None else homes.home_of_event(key, at)

    def _problems(
        self, record: Record, event: EventEnvelope, partition: int, command: int, index: int
    ) -> Iterator[str]:
        key, scope = event.subject.encode(), self._scope
        if partition != scope.partition:
            yield f"is of a command on partition {partition}"
        elif (there := self._home(key, record.offset)) not in (None, scope.partition):
            yield f"is of {event.subject!r}, whose partition is {there}"
        if scope.homes is not None and (split := scope.homes.crossed("events", command, record.offset)):
            yield f"is of command {command}, and the split at command {split.commands} is at {split.events}"
        if event.eventindex != index:
            yield f"has the id {event.id!r} and the eventindex {event.eventindex}"
        if event.source != f"/cqrs/{scope.aggregate}" or event.specversion != "1.0":
            yield f"comes from {event.source!r}, in version {event.specversion!r} of CloudEvents"
        if not event.type.startswith(f"{scope.aggregate}.") and not (scope.personal and event.type == ERASED):
            yield f"has the type {event.type!r}, which is not one of {scope.aggregate}"
        if event.time != self._time(record.timestamp):
            yield f"has the time {event.time!r}, its record {self._time(record.timestamp)}"
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
            yield from _problems_of_key(scope.personal, event)

    def _add(self, record: Record, event: EventEnvelope, command: int, index: int) -> None:
        known = self._open
        if known is None or command != self._command or self._separates(known.at, record.offset):
            self.end()
            self._open = known = _trace(record, event, index)
            self._command = command
        if index < known.reach:
            self._findings.add("events", record.offset, f"repeats event {event.id}")
            return
        if index > known.reach:
            what = f"is event {event.id}, and event {known.reach} is not before it"
            self._findings.add("events", record.offset, what)
        elif known.reach and _trace(record, event, index, known) != known:
            what = f"differs from the first event of command {command}"
            self._findings.add("events", record.offset, what)
        known.reach = index + 1
        if self._scope.personal is not None:
            self._add_key(record.offset, event, known)

    def _add_key(self, at: int, event: EventEnvelope, known: EventsTrace) -> None:
        try:
            key = key_of_event(event)
        except ValueError:  # already reported
            return
        if key is None:
            return
        if known.kid is not None and (known.kid, known.ends) != key:
            what = f"names key {key.kid}, and an event of the same command key {known.kid}"
            self._findings.add("events", at, what)
        known.kid, known.ends = key

    def _separates(self, before: int, at: int) -> bool:
        """True if the accepted loss is between two offsets: then their events are not of one command."""
        return self._is_after_loss(at) and not self._is_after_loss(before)

    def _is_after_loss(self, at: int) -> bool:
        return self._scope.loss is not None and at >= self._scope.loss.events


def _trace(record: Record, event: EventEnvelope, index: int, like: EventsTrace | None = None) -> EventsTrace:
    """Return the index entry of a command's events, made from one event. With `like`, copy its offsets and key, so that
    both entries can be compared.
    """
    at, reach = (record.offset, 0) if like is None else (like.at, like.reach)
    return EventsTrace(
        at,
        record.timestamp,
        event.subject,
        event.causationid,
        event.correlationid,
        event.aggregateversion - index,
        event.eventcount,
        reach,
        *((None, False) if like is None else (like.kid, like.ends)),
        propagated=text_sum(*event.propagated_texts()),
    )


def _other_members(value: bytes | None, event: EventEnvelope) -> str:
    """Return the names of members that no owner writes, or that are missing; empty if there are none."""
    known = {name for name in event.__struct_fields__ if getattr(event, name) is not None}
    if event.datasha256 is not None:
        known |= set(ATTRIBUTES)
    return ", ".join(sorted(known ^ set(read_members(value or b""))))


def _problems_of_key(personal: PersonalScope, event: EventEnvelope) -> Iterator[str]:
    try:
        key_of_event(event)
    except ValueError as error:
        yield f"cannot be read: {error}"
        return
    if personal.ring is not None:
        yield from personal.ring.faults(event.subject, event.id, bytes(event.data))


def _position(event: EventEnvelope) -> tuple[int, int, int]:
    """Return partition, offset and index in an event's id; raise `ValueError` for an id that no owner writes."""
    partition, command, index = event.position()
    if f"{partition}/{command}/{index}" != event.id:
        raise ValueError(f"its id is {event.id!r}")
    if not index < event.eventcount < 2**31 or not index < event.aggregateversion < LIMIT:
        raise ValueError(
            f"its eventindex is {index}, eventcount {event.eventcount}, aggregateversion {event.aggregateversion}"
        )
    return partition, command, index
