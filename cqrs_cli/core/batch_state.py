"""The changes of a batch while it is decided, on top of its context, and the output records of the batch."""

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.batch_encryption import BatchEncryption
from cqrs_cli.core.context import MAX_EVENTS, BatchContext, Decisions, Forward
from cqrs_cli.core.decision_in_progress import CheckedCommand, DecisionInProgress
from cqrs_cli.core.deferral.document import forwarded_document
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.deferral.later import Later
from cqrs_cli.core.erasure import ERASE
from cqrs_cli.core.failed_check import record_failed_check
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.handle import (
    apply_size_limits,
    context_of,
    invalid_result,
    result_of_error,
    too_many_events,
    unchecked_size,
)
from cqrs_cli.core.messages.command import CommandEnvelope, shared_members_of_unreadable
from cqrs_cli.core.messages.event import event_writer
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.outcome import (
    Original,
    Verdict,
    VerdictWithoutDeferral,
    accepted_writer,
    outcome_writer,
)
from cqrs_cli.core.messages.reasons import STATUSES, CheckFailed, Reason
from cqrs_cli.core.messages.record import Record, is_text
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.core.stored import DedupEntry


class BatchState:
    """The states, ids and counts that a batch has changed, with methods that write the results of its commands."""

    def __init__(self, aggregate: Aggregate, context: BatchContext) -> None:
        self.aggregate = aggregate
        self.context = context
        self.decisions = Decisions(context.clock)
        self.states, self.dedup_entries = self.decisions.states, self.decisions.dedup_entries
        self.deferrals = context.deferrals
        self.decisions.deferral_changes = self.deferrals.changed_entries
        self.counts = self.decisions.counts = {**dict.fromkeys(STATUSES, 0), "events": 0}
        self.event_bytes = 0  # of the batch's events, their payloads, and the commands that it defers
        self.extra_outcome_fields: dict[str, Any] = {}  # extra fields of the next outcome, about its deferral
        self.timestamp: int | None = None  # of the current record, ms
        self.timestamp_text = ""  # `timestamp` as text
        self._partition = context.partition
        self._initial, self._unchecked_size = aggregate.decider.initial, unchecked_size(context)
        source, partition, types = aggregate.ce_source, context.partition, aggregate.event_types
        self._writers = {
            cls: (wire_type, event_writer(source, partition, wire_type)) for cls, wire_type in types.items()
        }
        self._accepted_writers = {
            wire_type: accepted_writer(source, partition, wire_type) for wire_type in aggregate.commands
        }
        self._decide: Callable[..., Iterable[Event]] = aggregate.decider.decide
        self._needs_context = aggregate.decides_with_context
        self._encode, self._step = aggregate.quick_encode, aggregate.step_decided
        self._encode_outcome = outcome_writer(source, partition)
        self.encryption = (
            BatchEncryption(aggregate, context, self.decisions) if aggregate.has_personal_fields else None
        )
        if self.encryption is not None:
            self.deferrals.encrypt_document = self.encryption.encrypt_document
            self._erasure_writers: dict[type, Any] = {
                Erased: (ERASED, event_writer(source, partition, ERASED))
            }

    def handle(self, checked: CheckedCommand, decision: DecisionInProgress | None = None) -> None:
        """Check 11 (docs/messages.md): call `decide` once, and write the events and the outcome of the command. Each
        event is folded in its written form, as readers of the log will fold it. No other function calls `decide`.

        `decision` is None on the fast path. HANDLER_ERROR and TOO_LARGE discard all events. Process errors
        (`PROCESS_ERRORS`) are raised. No variable holds an exception of `decide`: it would be a reference cycle.
        """
        record, envelope, shared, command, state_before, fingerprint, expected = checked
        version, state = (state_before.version, state_before.state) if state_before else (0, self._initial)
        decide, step, encode, writers = self._decide, self._step, self._encode, self._writers
        events = None if decision is None else decision.reserved_events
        if events is None:
            try:
                # A generator may reject after its first event, and may never end. So collect all events before a fold.
                if self._needs_context:
                    result = decide(command, state, context_of(record, envelope, version))
                else:
                    result = decide(command, state)
                events = tuple(islice(result, MAX_EVENTS + 1))
            except BaseException as error:  # the aggregate's code may raise any exception
                return self._write_no_events(
                    checked, decision, result_of_error(self.aggregate, command, state, error)
                )
        if not 0 < len(events) <= MAX_EVENTS:
            return self._write_no_events(checked, decision, too_many_events() if events else ())
        offset, key, timestamp, count, size = record.offset, record.key, record.timestamp, len(events), 0
        written, start, encryption = self.decisions.events, len(self.decisions.events), self.encryption
        if encryption is not None and envelope.type == ERASE:
            writers, step = self._erasure_writers, self.aggregate.step
        try:
            for index, event in enumerate(events):
                wire_type, write = writers[type(event)]
                data = encode(event)
                state = step(state, wire_type, data)
                version += 1
                if encryption is not None:
                    data = encryption.encrypt_event(event, data, envelope.subject, offset, index)
                value = write((offset, index, shared, version, index, count, data))
                size += len(value)
                written.append((value, key, timestamp))
            if size > self._unchecked_size:
                size = self._apply_size_limits(events, start, envelope.subject, offset)
        except BaseException as error:  # also `Rejected`: `evolve` may not reject
            del written[start:]
            return self._write_no_events(checked, decision, invalid_result(self.aggregate, events, error))
        self.event_bytes += size
        self.states[envelope.subject] = VersionedState(version, state, offset, count - 1, self.timestamp_text)
        if decision is not None or expected is not UNSET:
            return self._write_accepted(checked, decision, version, count)
        entry = DedupEntry(timestamp, offset, "accepted", version, count, fingerprint)
        self.dedup_entries[envelope.subject, envelope.id] = entry
        self.counts["accepted"] += 1
        value = self._accepted_writers[envelope.type]((offset, shared, version, count, offset, fingerprint))
        self.decisions.outcomes.append((value, key, timestamp))
        return None

    def _write_accepted(
        self, checked: CheckedCommand, decision: DecisionInProgress | None, version: int, count: int
    ) -> None:
        """Write the outcome of a command with events."""
        decision, envelope = decision or DecisionInProgress(*checked), checked[1]
        if self.encryption is not None and envelope.type == ERASE:
            self.encryption.drop_key(envelope.subject)
        verdict = self._verdict(decision, "accepted")
        verdict.version, verdict.events = version, count
        wire_type = encode_json(f"{envelope.type}.accepted")
        self._write_outcome(decision, verdict, wire_type, decision.shared, True)

    def _apply_size_limits(self, events: tuple[Event, ...], start: int, subject: str, offset: int) -> int:
        """Apply the size limits to the events of a command, which are written from `start` on; return their bytes."""
        written, encode, encryption = self.decisions.events, self._encode, self.encryption

        def data_of(index: int) -> bytes:  # encryption is deterministic, so repeating it gives the same bytes
            event = events[index]
            data = encode(event)
            return (
                data if encryption is None else encryption.encrypt_event(event, data, subject, offset, index)
            )

        written[start:], payloads, size = apply_size_limits(self.context, data_of, written[start:])
        self.decisions.payloads |= payloads
        return size

    def _write_no_events(
        self,
        checked: CheckedCommand,
        decision: DecisionInProgress | None,
        result: CheckFailed | Later | tuple[()],
    ) -> None:
        """Write the outcome of a command without events. `result`: why it failed or is deferred; () if `unchanged`."""
        decision = decision or DecisionInProgress(*checked)
        if isinstance(result, Later):
            record, envelope, fingerprint = checked[0], checked[1], checked[5]
            result = self.deferrals.defer_for_later(
                record, envelope, decision.deferral, fingerprint, decision.version, result
            )
        if isinstance(result, CheckFailed):
            self.write_failed_check(decision, result)
        else:
            self._write_outcome_without_events(decision, self._verdict(decision, "unchanged"), True)

    def write_duplicate(self, decision: DecisionInProgress, original: Original) -> None:
        """Write the outcome of a duplicate."""
        verdict = self._verdict(decision, "duplicate")
        verdict.original = original
        self._write_outcome_without_events(decision, verdict, False)

    def advance_clock(self, record: Record) -> int:
        """Set the time of the record that is decided next, and return the greatest timestamp so far, in ms.

        Records with equal timestamps share the text of the timestamp.
        """
        if record.timestamp != self.timestamp:
            self.timestamp, self.timestamp_text = record.timestamp, rfc3339(record.timestamp)
            if record.timestamp > self.decisions.clock:
                self.decisions.clock = record.timestamp
        return self.decisions.clock

    def write_failed_check(self, decision: DecisionInProgress, failure: CheckFailed) -> None:
        """Write the outcome of a failed check."""
        record, verdict = decision.record, self._verdict(decision, failure.reason.status)
        if failure.reason.status == "deferred":
            self.event_bytes += len(record.value or b"")  # the deferral entry contains the command
        self.extra_outcome_fields |= record_failed_check(
            self.decisions, self.context, record, verdict, failure
        )
        self._write_outcome_without_events(decision, verdict, failure.reason.remembered)

    def forward_command(self, decision: DecisionInProgress, envelope: CommandEnvelope, target: int) -> None:
        """Forward a command to the child `target`, to which its key has moved. Its id is remembered only there.

        Raises `CheckFailed` if the record with `forwardedfrom` would be too large, or unreadable.
        """
        record = decision.record
        value = forwarded_document(record, envelope, f"{self._partition}/{record.offset}")
        key = record.key or b""
        if not self.deferrals.fits_commands_topic(key, value):
            raise CheckFailed(
                Reason.WRONG_PARTITION, f"it has moved to partition {target}, and is too large to follow"
            )
        self.decisions.forwards.append(Forward(target, key, value))
        self.write_failed_check(
            decision, CheckFailed(Reason.MOVED, "", due=self.timestamp_text, movedto=target)
        )

    def _verdict(self, decision: DecisionInProgress, status: str) -> VerdictWithoutDeferral:
        """Return a verdict with this status, and without events."""
        return VerdictWithoutDeferral(
            status=status,
            expected=decision.expected_version,
            version=decision.version,
            partition=self._partition,
            offset=decision.record.offset,
            fingerprint=decision.fingerprint,
        )

    def _write_outcome_without_events(
        self, decision: DecisionInProgress, verdict: VerdictWithoutDeferral, is_remembered: bool
    ) -> None:
        """Write the outcome of a command without events; without a subject if the envelope or the key is unreadable."""
        envelope, wire_type, shared = decision.envelope, "cqrs.failed", None
        if envelope is not None:
            if verdict.status != "failed" or envelope.type in self.aggregate.commands:
                wire_type = f"{envelope.type}.{verdict.status}"
            if verdict.reason != "KEY_MISMATCH" or is_text(decision.record.key):
                shared = decision.shared
        self._write_outcome(
            decision,
            verdict,
            encode_json(wire_type),
            shared or shared_members_of_unreadable(self.timestamp_text),
            is_remembered,
        )

    def _write_outcome(
        self,
        decision: DecisionInProgress,
        verdict: VerdictWithoutDeferral,
        wire_type: bytes,
        shared: bytes,
        is_remembered: bool,
    ) -> None:
        """Write the outcome. `wire_type`: its type as JSON; `shared`: the members that it shares with the events."""
        record, envelope, status = decision.record, decision.envelope, verdict.status
        offset, timestamp, fingerprint = record.offset, record.timestamp, verdict.fingerprint
        if decision.deferral is not None:
            self._finish_resubmission(decision.deferral, status)
        if is_remembered and envelope is not None and fingerprint is not UNSET:
            dedup_entry = DedupEntry(timestamp, offset, status, verdict.version, verdict.events, fingerprint)
            self.dedup_entries[envelope.subject, envelope.id] = dedup_entry
            if envelope.id > self.decisions.greatest_id:
                self.decisions.greatest_id = envelope.id
        self.counts[status] += 1
        if self.extra_outcome_fields:
            verdict, self.extra_outcome_fields = Verdict(**asdict(verdict), **self.extra_outcome_fields), {}
        value = self._encode_outcome((offset, wire_type, shared, encode_json(verdict)))
        self.decisions.outcomes.append((value, record.key, timestamp))

    def _finish_resubmission(self, entry: Deferral, status: str) -> None:
        """Add `deferredfrom` to the outcome of a resubmitted command, and remove its entry if the outcome is final."""
        self.extra_outcome_fields["deferredfrom"] = self.deferrals.deferredfrom_of(entry)
        if status != "deferred":
            self.deferrals.remove_entry(entry)
