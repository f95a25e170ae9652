"""The centre: deciding a batch of command records, as one pure function.

Commands are decided in offset order, later ones seeing what earlier ones changed, so that the cuts between batches make
no difference: the same records give the same bytes.
"""

import traceback
from collections.abc import Iterable
from contextlib import suppress
from math import inf

from msgspec import UNSET, UnsetType

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.invalid import PROCESS_ERRORS, raised
from cqrs_cli.core.checks import (
    check_expiry,
    check_id,
    check_key,
    check_partition,
    check_version,
    decoder_of,
    read_data,
    read_expected,
    require_key,
    without_bytes,
)
from cqrs_cli.core.context import BatchContext, Decisions, OutputRecord, Undecided
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.handle import handle
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.fingerprint import fingerprint
from cqrs_cli.core.messages.outcome import Verdict, WrittenOutcome, cut, dead_letter, write_outcome
from cqrs_cli.core.messages.reasons import STATUSES, Reason, Refused
from cqrs_cli.core.messages.record import Record, is_text
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.core.stored import DedupEntry

_GIVEN_UP = (
    "its dead letter would be too large, the worker died on its bytes, or an operator gave it up: run --fail"
)

#: The last characters of a traceback that are kept.
_MOST_TRACEBACK = 10_000


def decide_batch(aggregate: Aggregate, records: Iterable[Record], context: BatchContext) -> Decisions:
    """Decide every record: exactly one outcome each. Raises nothing that a record could cause but `Undecided`."""
    return Batch(aggregate, context).decide_piece(records)


class Batch:
    """One batch under way: an overlay of what it changed over what the context answers.

    It may be decided piece by piece, and the cuts between pieces make no difference, either. The few records of a piece
    and what they come to stay in the processor's cache: 5,000 commands are 15 MB of Python objects.
    """

    def __init__(self, aggregate: Aggregate, context: BatchContext) -> None:
        self.aggregate = aggregate
        self.context = context
        self.done = Decisions(context.clock)
        self.states, self.remembered = self.done.states, self.done.remembered
        self.counts = self.done.counts = {**dict.fromkeys(STATUSES, 0), "events": 0}
        self.marked = context.refused | context.blamed.keys()  # offsets that are not decided as others are
        self.deciding: Record | None = None  # for others to watch
        self.event_bytes = 0
        self.timestamp: int | None = None
        self.time = ""  # the text of `timestamp`

    def decide_piece(self, records: Iterable[Record], most_bytes: float = inf) -> Decisions:
        """The decisions of the batch so far; events, outcomes and dead letters are those of these records alone.

        It ends after the record with which the batch's events have more than `most_bytes`. Raises `Undecided`; the
        batch is then of no use.
        """
        done = self.done
        done.events, done.outcomes, done.dead_letters = [], [], []
        try:
            for record in records:
                self.deciding = record
                self._decide(record)
                if self.event_bytes > most_bytes:
                    break
        except PROCESS_ERRORS as error:
            undecided = self._undecided(record, error)
        else:
            self.counts["events"] += len(done.events)
            return done
        finally:
            self.deciding = None
        raise undecided  # not from the error, which holds on to what the aggregate's code had in memory

    def _undecided(self, record: Record, error: BaseException) -> Undecided:
        before = sum(self.counts[status] for status in STATUSES)
        return Undecided(record.offset, before, raised(error, self.aggregate.package))

    def _decide(self, record: Record) -> None:
        """Check in the order of docs/messages.md, under its numbers: the first check that refuses gives the reason."""
        aggregate, context, clock = self.aggregate, self.context, self._clock(record)
        envelope: CommandEnvelope | None = None
        verdict = Verdict(status="accepted", partition=context.partition, offset=record.offset)
        mark, blame = 0, None
        try:
            if record.offset in self.marked:
                blame = context.blamed.get(record.offset)
                if record.offset in context.refused:
                    record = without_bytes(record)
                    raise Refused(Reason.TOO_LARGE, _GIVEN_UP)
            key = require_key(record.key)  # 1
            envelope = read_command(record)  # 2
            expected = envelope.expected_text()
            mark = verdict.fingerprint = fingerprint(envelope.type, envelope.data, expected)
            check_key(key, envelope.subject)  # 3
            check_partition(key, context)  # 4
            before = self._state(envelope.subject)
            verdict.version = before.version if before else 0
            if expected is not None:
                verdict.expected = expected
            original = check_id(self._first_decision(envelope), mark, clock - context.window)  # 5
            if original is not None:
                verdict.status, verdict.original = "duplicate", original
                return self._put_outcome(record, envelope, verdict)
            decode = decoder_of(aggregate, envelope.type)  # 6
            if blame is not None:
                raise Refused(Reason.HANDLER_ERROR, blame)
            command = read_data(aggregate, decode, envelope)  # 7
            wanted = read_expected(expected)  # 8
            check_expiry(envelope.expirytime, record.timestamp, context.now)  # 9
            check_version(wanted, verdict.version)  # 10
            events, after = handle(aggregate, context, record, envelope, command, before, self.time)  # 11
        except Refused as refused:
            self._refuse(record, verdict, refused)
            remembered = refused.reason.remembered
        else:
            self._accept(envelope.subject, verdict, events, after)
            remembered = True
        if remembered and envelope is not None:
            self.remembered[envelope.subject, envelope.id] = DedupEntry(
                record.timestamp, record.offset, verdict.status, verdict.version, verdict.events, mark
            )
        return self._put_outcome(record, envelope, verdict)

    def _clock(self, record: Record) -> int:
        """The greatest timestamp so far. Records of one millisecond come together, and share its text."""
        if record.timestamp != self.timestamp:
            self.timestamp, self.time = record.timestamp, rfc3339(record.timestamp)
            if record.timestamp > self.done.clock:
                self.done.clock = record.timestamp
        return self.done.clock

    def _state(self, aggregate_id: str) -> Folded | None:
        return self.states.get(aggregate_id) or self.context.state(aggregate_id)

    def _first_decision(self, envelope: CommandEnvelope) -> DedupEntry | None:
        key = (envelope.subject, envelope.id)
        return self.remembered.get(key) or self.context.remembered(*key)

    def _accept(
        self, subject: str, verdict: Verdict, events: list[OutputRecord], after: Folded | None
    ) -> None:
        if after is None:
            verdict.status = "unchanged"
            return
        verdict.version = after.version
        verdict.events = len(events)
        self.done.events += events
        for value, _, _ in events:
            self.event_bytes += len(value)
        self.states[subject] = after

    def _refuse(self, record: Record, verdict: Verdict, refused: Refused) -> None:
        reason = refused.reason
        verdict.status = reason.status
        verdict.reason = reason.name
        verdict.message = cut(refused.message)
        verdict.retryable = reason.retryable
        self.done.reasons[reason.name] = self.done.reasons.get(reason.name, 0) + 1
        if reason is Reason.HANDLER_ERROR and refused.__cause__ is not None:
            self._keep_traceback(refused.message, refused.__cause__)
        for name, value in refused.members.items():
            setattr(verdict, name, value)
        if reason.status == "failed":
            letter = dead_letter(
                record, self.context.topic, self.context.partition, reason.name, refused.message
            )
            self.done.dead_letters.append(letter)

    def _keep_traceback(self, message: str, error: BaseException) -> None:
        """Keep where the aggregate's code raised, once for each place and kind."""
        name = type(error).__name__
        kind = message.partition(name)[0] + name
        if kind not in self.done.raised:
            with suppress(Exception):  # to show an error may run the aggregate's code again
                self.done.raised[kind] = "".join(traceback.format_exception(error))[-_MOST_TRACEBACK:]

    def _put_outcome(self, record: Record, envelope: CommandEnvelope | None, verdict: Verdict) -> None:
        self.counts[verdict.status] += 1
        subject: str | UnsetType = UNSET
        cause: str | UnsetType = UNSET
        correlation: str | UnsetType = UNSET
        parent: str | UnsetType = UNSET
        state: str | UnsetType = UNSET
        kind = "cqrs.failed"
        if envelope is not None:
            if verdict.status != "failed" or envelope.type in self.aggregate.commands:
                kind = f"{envelope.type}.{verdict.status}"
            if verdict.reason != "KEY_MISMATCH" or is_text(record.key):
                subject, cause = envelope.subject, envelope.id
                correlation, (parent, state) = envelope.correlationid or cause, envelope.trace()
        outcome = WrittenOutcome(
            "1.0",
            f"{self.context.partition}/{record.offset}",
            self.aggregate.ce_source,
            kind,
            subject,
            self.time,
            cause,
            correlation,
            parent,
            state,
            verdict,
        )
        self.done.outcomes.append((write_outcome(outcome), record.key, record.timestamp))
