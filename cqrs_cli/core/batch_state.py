"""The state of a batch while it is decided: its changes on top of the context, and its output records."""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS, is_interrupt
from cqrs_cli.core.batch_encryption import BatchEncryption
from cqrs_cli.core.context import BatchContext, Decisions, Forward, OutputRecord
from cqrs_cli.core.decision_in_progress import DecisionInProgress
from cqrs_cli.core.deferral.document import forwarded_document
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.deferral.later import Later
from cqrs_cli.core.erasure import ERASE
from cqrs_cli.core.failed_check import record_failed_check
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.handle import DecideResult, apply_size_limits, invalid_result, unchecked_size
from cqrs_cli.core.messages.command import CommandEnvelope, shared_members_of_unreadable
from cqrs_cli.core.messages.event import event_writer
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.outcome import Original, Verdict, WrittenVerdict, outcome_writer
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
        self.slow_path_offsets = (
            context.given_up_offsets | context.poison_reasons.keys()
        )  # offsets of commands that take no fast path
        self.event_bytes = 0
        self.extra_outcome_fields: dict[str, Any] = {}  # extra fields of the next outcome, about its deferral
        self.timestamp: int | None = None
        self.timestamp_text = ""  # `timestamp` as text
        self._partition = context.partition
        self._initial, self._unchecked_size = aggregate.decider.initial, unchecked_size(context)
        source, partition, types = aggregate.ce_source, context.partition, aggregate.event_types
        self._writers = {
            cls: (wire_type, event_writer(source, partition, wire_type)) for cls, wire_type in types.items()
        }
        self._accepted = {
            wire_type: encode_json(f"{wire_type}.accepted") for wire_type in aggregate.commands
        }  # types of outcomes
        self._encode, self._step = aggregate.quick_encode, aggregate.step_decided
        self._encode_outcome = outcome_writer(source, partition)
        self.encryption = (
            BatchEncryption(aggregate, context, self.decisions) if aggregate.has_personal_fields else None
        )
        if self.encryption is not None:
            self.deferrals.encrypt_document = self.encryption.encrypt_document
            self._accepted[ERASE] = encode_json(f"{ERASE}.accepted")
            self._erasure_writers: dict[type, Any] = {
                Erased: (ERASED, event_writer(source, partition, ERASED))
            }

    def write_result(self, decision: DecisionInProgress, result: DecideResult | Original) -> None:
        """Write the events and the outcome of a command, from the result of `decide` or a duplicate's first decision.

        This is the second half of check 11 (docs/messages.md): each event is folded in its written form, as readers of
        the log will fold it.
        HANDLER_ERROR and TOO_LARGE discard all events. Process errors (`PROCESS_ERRORS`) are raised.
        """
        if not isinstance(result, tuple) or not result:
            return self._write_result_without_events(decision, result)
        record, envelope, state_before = decision.record, decision.envelope, decision.state_before
        assert envelope is not None
        offset, key, timestamp = record.offset, record.key, record.timestamp
        version, state = (state_before.version, state_before.state) if state_before else (0, self._initial)
        time, count, size = self.timestamp_text, len(result), 0
        shared = envelope.shared_members(self.timestamp_text)
        writers, encode, step, encryption = self._writers, self._encode, self._step, self.encryption
        if encryption is not None and envelope.type == ERASE:
            writers, step = self._erasure_writers, self.aggregate.step
        events: list[OutputRecord] = []
        try:
            for index, event in enumerate(result):
                wire_type, write = writers[type(event)]
                data = encode(event)
                state = step(state, wire_type, data)
                version += 1
                if encryption is not None:
                    data = encryption.encrypt_event(event, data, envelope.subject, offset, index)
                value = write((offset, index, shared, version, index, count, data))
                size += len(value)
                events.append((value, key, timestamp))
            if size > self._unchecked_size:
                data_of = _data_of(result, encode, encryption, envelope.subject, offset)
                events, payloads, size = apply_size_limits(self.context, data_of, events)
                self.decisions.payloads |= payloads
        except CheckFailed as failure:
            return self.write_failed_check(decision, failure)
        except PROCESS_ERRORS:
            raise
        except BaseException as error:  # also `Rejected`: `evolve` may not reject
            if is_interrupt(error):
                raise
            return self.write_failed_check(decision, invalid_result(self.aggregate, result, error))
        self.decisions.events += events
        self.event_bytes += size
        if encryption is not None and envelope.type == ERASE:
            encryption.drop_key(envelope.subject)
        self.states[envelope.subject] = VersionedState(version, state, offset, count - 1, time)
        verdict = WrittenVerdict(
            status="accepted",
            expected=decision.expected_version,
            version=version,
            events=count,
            partition=self._partition,
            offset=offset,
            fingerprint=decision.fingerprint,
        )
        return self._write_outcome(decision, verdict, self._accepted[envelope.type], shared, True)

    def _write_result_without_events(
        self, decision: DecisionInProgress, result: DecideResult | Original
    ) -> None:
        match result:
            case tuple():
                self._write_outcome_without_events(decision, self._verdict(decision, "unchanged"), True)
            case Original():
                self._write_outcome_without_events(
                    decision, self._verdict(decision, "duplicate", original=result), False
                )
            case Later():
                record, envelope, fingerprint = decision.record, decision.envelope, decision.fingerprint
                assert envelope is not None and isinstance(fingerprint, int)
                self.write_failed_check(
                    decision,
                    self.deferrals.defer_for_later(
                        record, envelope, decision.deferral, fingerprint, decision.version, result
                    ),
                )
            case CheckFailed():
                self.write_failed_check(decision, result)

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
            self.event_bytes += len(record.value or b"")
        self.extra_outcome_fields |= record_failed_check(
            self.decisions, self.context, record, verdict, failure
        )
        self._write_outcome_without_events(decision, verdict, failure.reason.remembered)

    def forward_command(self, decision: DecisionInProgress, envelope: CommandEnvelope, target: int) -> None:
        """Forward a command to the child `target` that owns its key now. This partition does not remember the command.

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

    def _verdict(
        self, decision: DecisionInProgress, status: str, original: Original | UnsetType = UNSET
    ) -> WrittenVerdict:
        """Return the verdict of a command without events."""
        return WrittenVerdict(
            status=status,
            expected=decision.expected_version,
            version=decision.version,
            partition=self._partition,
            offset=decision.record.offset,
            fingerprint=decision.fingerprint,
            original=original,
        )

    def _write_outcome_without_events(
        self, decision: DecisionInProgress, verdict: WrittenVerdict, remembered: bool
    ) -> None:
        """Write the outcome of a command without events; without a subject if the envelope or the key is unreadable."""
        envelope, wire_type, shared = decision.envelope, "cqrs.failed", None
        if envelope is not None:
            if verdict.status != "failed" or envelope.type in self.aggregate.commands:
                wire_type = f"{envelope.type}.{verdict.status}"
            if verdict.reason != "KEY_MISMATCH" or is_text(decision.record.key):
                shared = envelope.shared_members(self.timestamp_text)
        self._write_outcome(
            decision,
            verdict,
            encode_json(wire_type),
            shared or shared_members_of_unreadable(self.timestamp_text),
            remembered,
        )

    def _write_outcome(
        self,
        decision: DecisionInProgress,
        verdict: WrittenVerdict,
        wire_type: bytes,
        shared: bytes,
        remembered: bool,
    ) -> None:
        """Write the outcome. `wire_type`: its type as JSON; `shared`: the members that it shares with the events."""
        record, envelope, status = decision.record, decision.envelope, verdict.status
        offset, timestamp, fingerprint = record.offset, record.timestamp, verdict.fingerprint
        if decision.deferral is not None:
            self._finish_resubmission(decision.deferral, status)
        if remembered and envelope is not None and fingerprint is not UNSET:
            dedup_entry = DedupEntry(timestamp, offset, status, verdict.version, verdict.events, fingerprint)
            self.dedup_entries[envelope.subject, envelope.id] = dedup_entry
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


def _data_of(
    events: tuple[Event, ...],
    encode: Callable[[Event], bytes],
    encryption: BatchEncryption | None,
    subject: str,
    offset: int,
) -> Callable[[int], bytes]:
    """Return a function from an event's index to its data as written. Encryption is deterministic, so repeating it
    gives the same bytes.
    """

    def data_of(index: int) -> bytes:
        event = events[index]
        data = encode(event)
        return data if encryption is None else encryption.encrypt_event(event, data, subject, offset, index)

    return data_of
