"""Reading outcomes: each on its own, as its log has them."""

from collections.abc import Iterable, Iterator
from typing import TypeVar

from msgspec import UnsetType

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof import verdict
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.join import first_told
from cqrs_cli.proof.scope import Clock, Scope
from cqrs_cli.proof.traces import OutcomeTrace, Traces, key_of

T = TypeVar("T")


class Outcomes:
    """The outcomes of a partition, read in the order of the log."""

    def __init__(self, scope: Scope, traces: Traces, findings: Findings) -> None:
        self.count = 0
        self._scope = scope
        self._traces = traces
        self._findings = findings
        self._time = Clock()

    def read(self, records: Iterable[Record]) -> None:
        """Take in the next ones."""
        for record in records:
            self.count += 1
            try:
                outcome = read_outcome(record.value)
            except ValueError as error:
                self._findings.add("outcomes", record.offset, f"is no outcome: {error}")
                continue
            for fault in self._faults(record, outcome):
                self._findings.add("outcomes", record.offset, fault)
            if outcome.data.partition == self._scope.partition:
                command = outcome.data.offset
                again = self._begins_again(command, record.offset)
                self._traces.keep(command, record.offset, _told(record, outcome), after_loss=again)

    def _begins_again(self, command: int, at: int) -> bool:
        """Whether this is the first outcome after an accepted loss, and what has been told before it is of a commands
        topic that was made again: the record that is there now is another, or deleted. Else one was decided twice.
        """
        loss = self._scope.loss
        if loss is None or at < loss.outcomes or self._traces.began_again:
            return False
        if not loss.at <= command <= self._traces.last:
            return False
        first = first_told(self._traces.index, loss.at)
        if first is None:
            return False
        place, told = first
        there = self._scope.command_at(place)
        return there is None or (there.timestamp, key_of(there)) != (told.timestamp, told.key)

    def _faults(self, record: Record, outcome: OutcomeEnvelope) -> Iterator[str]:
        said, partition = outcome.data, self._scope.partition
        if said.partition != partition:
            yield f"is of a command on partition {said.partition}"
        if outcome.id != f"{said.partition}/{said.offset}":
            yield f"is of command {said.offset} and has the id {outcome.id!r}"
        if outcome.source != f"/cqrs/{self._scope.aggregate}" or outcome.specversion != "1.0":
            yield f"comes from {outcome.source!r}, in version {outcome.specversion!r} of CloudEvents"
        if outcome.time != self._time(record.timestamp):
            yield f"has the time {outcome.time!r}, its record {self._time(record.timestamp)}"
        if record.headers != HEADERS:
            yield "has other headers than an outcome has"
        if said.status != "failed" and (outcome.subject is None or record.key != outcome.subject.encode()):
            yield f"is of {outcome.subject!r} under the key {record.key!r}"
        yield from verdict.faults(said)


def _told(record: Record, outcome: OutcomeEnvelope) -> OutcomeTrace:
    """The trace of an outcome."""
    said = outcome.data
    first = _given(said.original)
    return OutcomeTrace(
        record.offset,
        record.timestamp,
        key_of(record),
        outcome.type,
        outcome.subject or None,
        outcome.causationid,
        outcome.correlationid,
        said.status,
        said.reason or "",
        said.version,
        said.events,
        _given(said.expected),
        _given(said.fingerprint),
        None if first is None else (first.offset, first.status, first.version, first.events),
        _given(said.decidedat),
    )


def _given(member: T | UnsetType) -> T | None:
    return None if isinstance(member, UnsetType) else member
