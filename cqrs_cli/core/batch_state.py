"""The state of a batch while it is decided: its changes on top of the context, and its output records."""

from collections.abc import Callable
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS
from cqrs_cli.core.batch_encryption import BatchEncryption
from cqrs_cli.core.context import BatchContext, Decisions, Forward, OutputRecord
from cqrs_cli.core.decision_in_progress import DecisionInProgress
from cqrs_cli.core.deferral.document import forwarded_document
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.deferral.later import Later
from cqrs_cli.core.erasure import ERASE
from cqrs_cli.core.failed_check import note_refusal
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.handle import Answer, plain_size, unfolded, within_limits
from cqrs_cli.core.messages.command import CommandEnvelope, unnamed
from cqrs_cli.core.messages.event import event_writer
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.messages.outcome import Original, Verdict, WrittenVerdict, outcome_writer
from cqrs_cli.core.messages.reasons import STATUSES, CheckFailed, Reason
from cqrs_cli.core.messages.record import Record, is_text
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.core.stored import DedupEntry


class BatchState:
    """The states, ids and counts that a batch has changed. The methods write the results of its commands."""

    def __init__(self, aggregate: Aggregate, context: BatchContext) -> None:
        self.aggregate = aggregate
        self.context = context
        self.done = Decisions(context.clock)
        self.states, self.remembered = self.done.states, self.done.remembered
        self.deferrals = context.deferrals
        self.done.deferred = self.deferrals.changed
        self.counts = self.done.counts = {**dict.fromkeys(STATUSES, 0), "events": 0}
        self.marked = context.refused | context.blamed.keys()  # offsets of commands that take no fast path
        self.event_bytes = 0
        self.told: dict[str, Any] = {}  # extra fields of the next outcome, about its deferral
        self.timestamp: int | None = None
        self.time = ""  # `timestamp` as text
        self._partition = context.partition
        self._initial, self._plain_size = aggregate.decider.initial, plain_size(context)
        source, partition, types = aggregate.ce_source, context.partition, aggregate.event_types
        self._writers = {cls: (kind, event_writer(source, partition, kind)) for cls, kind in types.items()}
        self._accepted = {kind: encode_json(f"{kind}.accepted") for kind in aggregate.commands}
        self._encode, self._step = aggregate.quick_encode, aggregate.step_decided
        self._write_outcome = outcome_writer(source, partition)
        self.sealer = (
            BatchEncryption(aggregate, context, self.done) if aggregate.has_personal_fields else None
        )
        if self.sealer is not None:
            self.deferrals.seal = self.sealer.sealed_document
            self._accepted[ERASE] = encode_json(f"{ERASE}.accepted")
            self._erasing: dict[type, Any] = {Erased: (ERASED, event_writer(source, partition, ERASED))}

    def conclude(self, case: DecisionInProgress, answer: Answer | Original) -> None:
        """Write the events and the outcome of a command, from the result of `decide` or a duplicate's first decision.

        Check 11, second half: fold each event in the form that readers of the log will see. HANDLER_ERROR and TOO_LARGE
        discard all events. Process errors (`PROCESS_ERRORS`) are raised.
        """
        if not isinstance(answer, tuple) or not answer:
            return self._conclude_without_events(case, answer)
        record, envelope, before = case.record, case.envelope, case.before
        assert envelope is not None
        offset, key, timestamp = record.offset, record.key, record.timestamp
        version, state = (before.version, before.state) if before else (0, self._initial)
        time, count, size = self.time, len(answer), 0
        shared = envelope.shared(self.time)
        writers, encode, step, sealer = self._writers, self._encode, self._step, self.sealer
        if sealer is not None and envelope.type == ERASE:
            writers, step = self._erasing, self.aggregate.step
        events: list[OutputRecord] = []
        try:
            for index, event in enumerate(answer):
                kind, write = writers[type(event)]
                data = encode(event)
                state = step(state, kind, data)
                version += 1
                if sealer is not None:
                    data = sealer.sealed_event(event, data, envelope.subject, offset, index)
                value = write((offset, index, shared, version, index, count, data))
                size += len(value)
                events.append((value, key, timestamp))
            if size > self._plain_size:
                data_of = _data_of(answer, encode, sealer, envelope.subject, offset)
                events, payloads, size = within_limits(self.context, data_of, events)
                self.done.payloads |= payloads
        except CheckFailed as refused:
            return self.refuse(case, refused)
        except (KeyboardInterrupt, *PROCESS_ERRORS):
            raise
        except BaseException as error:  # also `Rejected`: `evolve` may not reject
            return self.refuse(case, unfolded(self.aggregate, answer, error))
        self.done.events += events
        self.event_bytes += size
        if sealer is not None and envelope.type == ERASE:
            sealer.erased(envelope.subject)
        self.states[envelope.subject] = VersionedState(version, state, offset, count - 1, time)
        verdict = WrittenVerdict(
            status="accepted",
            expected=case.expected,
            version=version,
            events=count,
            partition=self._partition,
            offset=offset,
            fingerprint=case.mark,
        )
        return self._put(case, verdict, self._accepted[envelope.type], shared, True)

    def _conclude_without_events(self, case: DecisionInProgress, answer: Answer | Original) -> None:
        match answer:
            case tuple():
                self._tell(case, self._verdict(case, "unchanged"), True)
            case Original():
                self._tell(case, self._verdict(case, "duplicate", original=answer), False)
            case Later():
                record, envelope, mark = case.record, case.envelope, case.mark
                assert envelope is not None and isinstance(mark, int)
                self.refuse(
                    case, self.deferrals.put_off(record, envelope, case.entry, mark, case.version, answer)
                )
            case CheckFailed():
                self.refuse(case, answer)

    def clock(self, record: Record) -> int:
        """Update the clock, and return the greatest timestamp so far. Records with equal timestamps share its text."""
        if record.timestamp != self.timestamp:
            self.timestamp, self.time = record.timestamp, rfc3339(record.timestamp)
            if record.timestamp > self.done.clock:
                self.done.clock = record.timestamp
        return self.done.clock

    def refuse(self, case: DecisionInProgress, refused: CheckFailed) -> None:
        """Write the outcome of a failed check."""
        record, verdict = case.record, self._verdict(case, refused.reason.status)
        if refused.reason.status == "deferred":
            self.event_bytes += len(record.value or b"")
        self.told |= note_refusal(self.done, self.context, record, verdict, refused)
        self._tell(case, verdict, refused.reason.remembered)

    def forward(self, case: DecisionInProgress, envelope: CommandEnvelope, heir: int) -> None:
        """Forward a command to the child `heir` that owns its key now. This partition does not remember the command.

        Raises `CheckFailed` if the record with `forwardedfrom` would be too large, or unreadable.
        """
        record = case.record
        value = forwarded_document(record, envelope, f"{self._partition}/{record.offset}")
        key = record.key or b""
        if not self.deferrals.may_send(key, value):
            raise CheckFailed(
                Reason.WRONG_PARTITION, f"it has moved to partition {heir}, and is too large to follow"
            )
        self.done.forwards.append(Forward(heir, key, value))
        self.refuse(case, CheckFailed(Reason.MOVED, "", due=self.time, movedto=heir))

    def _verdict(
        self, case: DecisionInProgress, status: str, original: Original | UnsetType = UNSET
    ) -> WrittenVerdict:
        """Return the verdict of a command without events."""
        return WrittenVerdict(
            status=status,
            expected=case.expected,
            version=case.version,
            partition=self._partition,
            offset=case.record.offset,
            fingerprint=case.mark,
            original=original,
        )

    def _tell(self, case: DecisionInProgress, verdict: WrittenVerdict, remembered: bool) -> None:
        """Write the outcome of a command without events; without a subject if the envelope or the key is unreadable."""
        envelope, kind, shared = case.envelope, "cqrs.failed", None
        if envelope is not None:
            if verdict.status != "failed" or envelope.type in self.aggregate.commands:
                kind = f"{envelope.type}.{verdict.status}"
            if verdict.reason != "KEY_MISMATCH" or is_text(case.record.key):
                shared = envelope.shared(self.time)
        self._put(case, verdict, encode_json(kind), shared or unnamed(self.time), remembered)

    def _put(
        self, case: DecisionInProgress, verdict: WrittenVerdict, kind: bytes, shared: bytes, remembered: bool
    ) -> None:
        """Write the outcome. `kind` is its type as JSON, `shared` the members that it has in common with the events."""
        record, envelope, status = case.record, case.envelope, verdict.status
        offset, timestamp, mark = record.offset, record.timestamp, verdict.fingerprint
        if case.entry is not None:
            self._decided_again(case.entry, status)
        if remembered and envelope is not None and mark is not UNSET:
            decision = DedupEntry(timestamp, offset, status, verdict.version, verdict.events, mark)
            self.remembered[envelope.subject, envelope.id] = decision
        self.counts[status] += 1
        if self.told:
            verdict, self.told = Verdict(**asdict(verdict), **self.told), {}
        value = self._write_outcome((offset, kind, shared, encode_json(verdict)))
        self.done.outcomes.append((value, record.key, timestamp))

    def _decided_again(self, entry: Deferral, status: str) -> None:
        """Add `deferredfrom` to the outcome of a resubmitted command, and remove its entry if the outcome is final."""
        self.told["deferredfrom"] = self.deferrals.place(entry)
        if status != "deferred":
            self.deferrals.end(entry)


def _data_of(
    events: tuple[Event, ...],
    encode: Callable[[Event], bytes],
    sealer: BatchEncryption | None,
    subject: str,
    offset: int,
) -> Callable[[int], bytes]:
    """Return a function from an event's index to its data as written. Encryption is deterministic, so repeating it
    gives the same bytes.
    """

    def data_of(index: int) -> bytes:
        event = events[index]
        data = encode(event)
        return data if sealer is None else sealer.sealed_event(event, data, subject, offset, index)

    return data_of
