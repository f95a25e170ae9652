"""Reads outcomes for `verify` in the order of the log, and checks each outcome without its command."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from msgspec import UnsetType

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.outcome import DeferredTarget, Original, OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import parse_timestamp
from cqrs_cli.proof.findings import Findings
from cqrs_cli.proof.index_entries import IndexWriter, OutcomeEntry, key_of, text_checksum
from cqrs_cli.proof.join import find_first_outcome
from cqrs_cli.proof.positions import CommandPosition, command_position
from cqrs_cli.proof.scope import Scope, TimestampText
from cqrs_cli.proof.split_clock import SplitChecker
from cqrs_cli.proof.verdict import check_names, check_verdict

_T = TypeVar("_T")

# The message of GAVE_UP, written by `core.deferral.deferrals.Deferrals.defer_for_later`.
_DEFERRED_TIMES = re.compile(r"put off (\d{1,4}) times")

# The message of WRONG_PARTITION if a key has moved, written by `core.batch_state.BatchState.forward_command`.
_TOO_LARGE_TO_FORWARD = re.compile(r"it has moved to partition (\d{1,9}), and is too large to follow")


class Outcomes:
    """Reads the outcomes of a partition in the order of the log; call `finish_outcomes` after the last outcome."""

    def __init__(self, scope: Scope, writer: IndexWriter, findings: Findings, clock: SplitChecker) -> None:
        self.count = 0
        self._clock = clock
        self._scope = scope
        self._writer = writer
        self._findings = findings
        self._timestamp_text = TimestampText()

    def read(self, records: Iterable[Record]) -> None:
        """Check the next records, and add them to the index."""
        for record in records:
            self.count += 1
            self._clock.add_outcome(record)
            try:
                outcome = read_outcome(record.value)
                wrong_members = _wrong_members(record.value, outcome)
            except ValueError as error:
                self._findings.add_violation("outcomes", record.offset, f"is not an outcome: {error}")
                continue
            if wrong_members:
                self._findings.add_violation(
                    "outcomes", record.offset, f"has other members than an outcome: {wrong_members}"
                )
            for problem in self._problems(record, outcome):
                self._findings.add_violation("outcomes", record.offset, problem)
            if outcome.data.partition == self._scope.partition:
                command = outcome.data.offset
                is_after_loss = self._is_first_after_recreation(command, record.offset)
                self._writer.add_entry(
                    command, record.offset, _index_entry(record, outcome), after_loss=is_after_loss
                )

    def finish_outcomes(self) -> None:
        """Check the remaining splits after the last outcome."""
        self._clock.finish_clock()

    def _is_first_after_recreation(self, command_offset: int, offset: int) -> bool:
        """True if this is the first outcome after an accepted loss, and the commands topic was recreated at the loss.

        The outcome's command is then out of order. If the topic still has the command of an earlier outcome after the
        loss, the topic was not recreated, and a command was decided twice.
        """
        loss = self._scope.loss
        if loss is None or offset < loss.outcomes_end or self._writer.topic_recreated:
            return False
        if not loss.restart_command <= command_offset <= self._writer.last_command:
            return False
        first_outcome = find_first_outcome(self._writer.index, loss.restart_command)
        if first_outcome is None:
            return False
        first_command, outcome = first_outcome
        command = self._scope.command_at(first_command)
        return command is None or (command.timestamp, key_of(command)) != (outcome.timestamp, outcome.key)

    def _problems(self, record: Record, outcome: OutcomeEnvelope) -> Iterator[str]:
        data, partition = outcome.data, self._scope.partition
        if data.partition != partition:
            yield f"is of a command on partition {data.partition}"
        if outcome.id != f"{data.partition}/{data.offset}":
            yield f"is of command {data.offset} and has the id {outcome.id!r}"
        if outcome.source != f"/cqrs/{self._scope.aggregate}" or outcome.specversion != "1.0":
            yield f"comes from {outcome.source!r}, in version {outcome.specversion!r} of CloudEvents"
        if outcome.time != self._timestamp_text(record.timestamp):
            yield f"has the time {outcome.time!r}, its record {self._timestamp_text(record.timestamp)}"
        if record.headers != HEADERS:
            yield "has other headers than an outcome has"
        if data.status != "failed" and (outcome.subject is None or record.key != outcome.subject.encode()):
            yield f"is of {outcome.subject!r} under the key {record.key!r}"
        yield from check_verdict(data, outcome.type.startswith("cqrs."))
        yield from check_names(outcome)
        if isinstance(data.due, str) and _due_of(outcome) is None:
            yield f"is due at {data.due!r}, which is not a time"
        if data.reason == "MOVED" and data.due != outcome.time:
            yield f"is MOVED, and due at {data.due!r} instead of its own time"
        if (key_history := self._scope.key_history) is None:
            return
        if not key_history.is_activated:
            yield "is of a pending partition: the partition history has no record of its activation"
        if (split := key_history.split_between("outcomes", data.offset, record.offset)) is not None:
            yield f"is of command {data.offset}, but the split at command {split.commands} is at {split.outcomes}"


def _index_entry(record: Record, outcome: OutcomeEnvelope) -> OutcomeEntry:
    """Return the index entry of an outcome."""
    data = outcome.data
    original, target = _value_or_none(data.original), _value_or_none(data.target)
    return OutcomeEntry(
        record.offset,
        record.timestamp,
        key_of(record),
        outcome.type,
        outcome.subject or None,
        outcome.causationid,
        outcome.correlationid,
        data.status,
        data.reason or "",
        data.version,
        data.events,
        _value_or_none(data.expected),
        _value_or_none(data.fingerprint),
        None
        if original is None
        else (_position_of(original), original.status, original.version, original.events),
        _value_or_none(data.decidedat),
        _value_or_none(data.deferredfrom),
        None if target is None else (_position_of(target), target.id),
        _due_of(outcome),
        _attempt_of(outcome),
        _target_partition_of(outcome),
        text_checksum(_value_or_none(data.message)),
        text_checksum(*outcome.propagated_texts()),
    )


def _wrong_members(value: bytes | None, outcome: OutcomeEnvelope) -> str:
    """Return the names of JSON members that are missing or that no owner writes so; empty if all members are right.

    Raises `ValueError` if the value is not valid JSON, or is nested too deeply.
    """
    try:
        members: dict[str, Any] = msgspec.json.decode(value or b"")
    except RecursionError:
        raise ValueError("nested too deeply") from None
    expected_members = {
        name: member for name, member in msgspec.to_builtins(outcome).items() if member is not None
    }
    absent = object()
    return ", ".join(
        sorted(
            name
            for name in {**members, **expected_members}
            if members.get(name, absent) != expected_members.get(name, absent)
        )
    )


def _position_of(pointer: Original | DeferredTarget) -> CommandPosition:
    return command_position(pointer.offset, _value_or_none(pointer.partition))


def _due_of(outcome: OutcomeEnvelope) -> int | None:
    try:
        return parse_timestamp(outcome.data.due) if isinstance(outcome.data.due, str) else None
    except ValueError:
        return None


def _attempt_of(outcome: OutcomeEnvelope) -> int | None:
    data = outcome.data
    if data.reason == "GAVE_UP" and (match := _DEFERRED_TIMES.match(data.message or "")) is not None:
        return int(match[1])
    return _value_or_none(data.attempt)


def _target_partition_of(outcome: OutcomeEnvelope) -> int | None:
    data = outcome.data
    if data.reason == "WRONG_PARTITION":
        match = _TOO_LARGE_TO_FORWARD.fullmatch(data.message or "")
        return None if match is None else int(match[1])
    return _value_or_none(data.movedto)


def _value_or_none(member: _T | UnsetType) -> _T | None:
    return None if isinstance(member, UnsetType) else member
