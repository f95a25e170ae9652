"""A batch of commands under way: what it has changed so far, over what the context answers, and what it has written."""

from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.deferral.later import Later
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.handle import Answer, handle
from cqrs_cli.core.messages.command import CommandEnvelope
from cqrs_cli.core.messages.outcome import Verdict, WrittenOutcome, WrittenVerdict, write_outcome
from cqrs_cli.core.messages.reasons import STATUSES, Refused
from cqrs_cli.core.messages.record import Record, is_text
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.core.refusal import note_refusal
from cqrs_cli.core.stored import DedupEntry


class Overlay:
    """The batch's own states, ids and counts; its methods write the results of commands."""

    def __init__(self, aggregate: Aggregate, context: BatchContext) -> None:
        self.aggregate = aggregate
        self.context = context
        self.done = Decisions(context.clock)
        self.states, self.remembered = self.done.states, self.done.remembered
        self.deferrals = context.deferrals
        self.done.deferred = self.deferrals.changed
        self.counts = self.done.counts = {**dict.fromkeys(STATUSES, 0), "events": 0}
        self.marked = context.refused | context.blamed.keys()  # offsets that are not decided as others are
        self.event_bytes = 0
        self.told: dict[str, Any] = {}  # of the deferral, by the outcome under way
        self.timestamp: int | None = None
        self.time = ""  # the text of `timestamp`

    def conclude(
        self,
        record: Record,
        envelope: CommandEnvelope,
        verdict: WrittenVerdict,
        mark: int,
        before: Folded | None,
        answer: Answer,
        entry: Deferral | None = None,
    ) -> None:
        """Write what `decide` answered: the events and the outcome."""
        remembered = True
        if isinstance(answer, tuple):
            try:
                self._accept(record, envelope, verdict, before, answer)
            except Refused as refused:
                remembered = self.refuse(record, verdict, refused)
        else:
            if isinstance(answer, Later):
                answer = self.deferrals.put_off(record, envelope, entry, mark, verdict.version, answer)
            remembered = self.refuse(record, verdict, answer)
        self.put_outcome(record, envelope, verdict, mark if remembered else None, entry)

    def _decided_again(self, entry: Deferral, verdict: WrittenVerdict) -> None:
        """The entry of a command that was said again ends with its final outcome, which names where it was deferred."""
        self.told["deferredfrom"] = self.deferrals.place(entry)
        if verdict.status != "deferred":
            self.deferrals.end(entry)

    def clock(self, record: Record) -> int:
        """The greatest timestamp so far. Records of one millisecond come together, and share its text."""
        if record.timestamp != self.timestamp:
            self.timestamp, self.time = record.timestamp, rfc3339(record.timestamp)
            if record.timestamp > self.done.clock:
                self.done.clock = record.timestamp
        return self.done.clock

    def _accept(
        self,
        record: Record,
        envelope: CommandEnvelope,
        verdict: WrittenVerdict,
        before: Folded | None,
        decided: tuple[Event, ...],
    ) -> None:
        made = handle(self.aggregate, self.context, record, envelope, decided, before, self.time)
        events, after, payloads = made
        if after is None:
            return
        verdict.status = "accepted"
        verdict.version = after.version
        verdict.events = len(events)
        self.done.events += events
        for value, _, _ in events:
            self.event_bytes += len(value)
        if payloads:
            self.done.payloads |= payloads
            self.event_bytes += sum(map(len, payloads.values()))
        self.states[envelope.subject] = after

    def refuse(self, record: Record, verdict: WrittenVerdict, refused: Refused) -> bool:
        """Note what a check says. True if the decision is remembered."""
        if refused.reason.status == "deferred":
            self.event_bytes += len(record.value or b"")
        self.told |= note_refusal(self.done, self.context, record, verdict, refused)
        return refused.reason.remembered

    def put_outcome(
        self,
        record: Record,
        envelope: CommandEnvelope | None,
        verdict: WrittenVerdict,
        mark: int | None = None,
        entry: Deferral | None = None,
    ) -> None:
        """Write the outcome. `mark`: the fingerprint of a decision that is remembered."""
        if entry is not None:
            self._decided_again(entry, verdict)
        if mark is not None and envelope is not None:
            self.remembered[envelope.subject, envelope.id] = DedupEntry(
                record.timestamp, record.offset, verdict.status, verdict.version, verdict.events, mark
            )
        self.counts[verdict.status] += 1
        subject: str | UnsetType = UNSET
        cause: str | UnsetType = UNSET
        correlation: str | UnsetType = UNSET
        handed_on: dict[str, Any] = {}
        kind = "cqrs.failed"
        if envelope is not None:
            if verdict.status != "failed" or envelope.type in self.aggregate.commands:
                kind = f"{envelope.type}.{verdict.status}"
            if verdict.reason != "KEY_MISMATCH" or is_text(record.key):
                subject, cause = envelope.subject, envelope.id
                correlation, handed_on = envelope.correlationid or cause, envelope.handed_on()
        if self.told:
            verdict, self.told = Verdict(**asdict(verdict), **self.told), {}
        outcome = WrittenOutcome(
            "1.0",
            f"{self.context.partition}/{record.offset}",
            self.aggregate.ce_source,
            kind,
            subject,
            self.time,
            cause,
            correlation,
            **handed_on,
            data=verdict,
        )
        self.done.outcomes.append((write_outcome(outcome), record.key, record.timestamp))
