"""The centre: deciding a batch of command records, as one pure function.

Commands are decided in offset order, later ones seeing what earlier ones changed, so that the cuts between batches make
no difference: the same records give the same bytes.
"""

from collections.abc import Iterable

from msgspec import UNSET, UnsetType

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command, Rejected
from cqrs_cli.core.aggregate.invalid import raised
from cqrs_cli.core.context import Context, Decisions, OutputRecord
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.handle import decide_one
from cqrs_cli.core.messages.command import MAX_ATTRIBUTE, CommandEnvelope, UndecidableError, read_command
from cqrs_cli.core.messages.expected_version import parse_expected
from cqrs_cli.core.messages.fingerprint import fingerprint
from cqrs_cli.core.messages.nesting import check_nesting
from cqrs_cli.core.messages.outcome import (
    Original,
    Verdict,
    WrittenOutcome,
    cut,
    dead_letter,
    write_outcome,
)
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.core.stored import DedupEntry


def decide_batch(aggregate: Aggregate, records: Iterable[Record], context: Context) -> Decisions:
    """Decide every record: exactly one outcome each. Raises nothing that a record could cause."""
    batch = _Batch(aggregate, context)
    for record in records:
        batch.decide(record)
    return batch.finish()


class _Batch:
    """One batch under way: an overlay of what it changed over what the context answers."""

    def __init__(self, aggregate: Aggregate, context: Context) -> None:
        self.aggregate = aggregate
        self.context = context
        self.done = Decisions(context.clock)
        self.states, self.remembered = self.done.states, self.done.remembered
        self.status = dict.fromkeys(("accepted", "unchanged", "rejected", "duplicate", "failed"), 0)
        self.timestamp = -1
        self.time = ""

    def finish(self) -> Decisions:
        self.done.counts = {**self.status, "events": len(self.done.events)}
        return self.done

    def decide(self, record: Record) -> None:
        """Check in the contract's order; the first reason wins."""
        if record.timestamp > self.done.clock:
            self.done.clock = record.timestamp
        envelope: CommandEnvelope | None = None
        verdict = Verdict(status="failed", partition=self.context.partition, offset=record.offset)
        try:
            if record.offset in self.context.refused:
                # Without its bytes, which may be what is refused, those of a key that can be no subject among them.
                short = record.key is not None and len(record.key) <= MAX_ATTRIBUTE
                record = Record(record.offset, record.timestamp, record.key if short else None)
                raise UndecidableError(
                    "TOO_LARGE", "its dead letter would be too large, or an operator gave it up: run --fail"
                )
            if not record.key:
                raise UndecidableError("KEY_MISSING", "the record has no key: send the aggregate id as key")
            envelope = read_command(record)
            self._check_key(record.key, envelope)
            self._judge(record, envelope, verdict)
        except UndecidableError as error:
            self._fail(record, envelope, verdict, error)
        self._put_outcome(record, envelope, verdict)

    def _check_key(self, key: bytes, envelope: CommandEnvelope) -> None:
        if key != envelope.subject.encode():
            raise UndecidableError("KEY_MISMATCH", "the record's key is not the subject")
        partition_of = self.context.partition_of
        if partition_of is not None and (home := partition_of(key)) != self.context.partition:
            raise UndecidableError(
                "WRONG_PARTITION",
                f"{envelope.subject!r} belongs to partition {home}: the sender hashes otherwise (`partitioner`)",
            )

    def _judge(self, record: Record, envelope: CommandEnvelope, verdict: Verdict) -> None:
        """From the dedup check on: sets the verdict; raises `UndecidableError`."""
        before = self._state(envelope.subject)
        version = verdict.version = before.version if before else 0
        expected = envelope.expected_text() if envelope.expectedversion else None
        if expected is not None:
            verdict.expected = expected
        mark = verdict.fingerprint = fingerprint(envelope.type, envelope.data, expected)
        if self._is_repeated(envelope, verdict, mark):
            return
        command = self._command(envelope)
        if not self._is_refused(record, envelope, verdict, expected, version):
            try:
                accepted = decide_one(
                    self.aggregate, self.context, record, envelope, command, before, self.time_of(record)
                )
            except Rejected as rejected:
                _reject(verdict, "BUSINESS_RULE", rejected.message, code=rejected.code)
            else:
                self._accept(envelope, verdict, accepted)
        self.remembered[envelope.subject, envelope.id] = DedupEntry(
            record.timestamp, record.offset, verdict.status, verdict.version, verdict.events, mark
        )

    def _state(self, aggregate_id: str) -> Folded | None:
        return self.states.get(aggregate_id) or self.context.state(aggregate_id)

    def _is_repeated(self, envelope: CommandEnvelope, verdict: Verdict, mark: int) -> bool:
        """Whether this subject and id were decided within the window: the same command, or another under its id."""
        first = self.remembered.get((envelope.subject, envelope.id))
        if first is None:
            first = self.context.remembered(envelope.subject, envelope.id)
        if first is None or self.done.clock - first.timestamp > self.context.window:
            return False
        if mark == first.fingerprint:
            verdict.status = "duplicate"
        else:
            _reject(verdict, "ID_REUSED", f"the id was used for another command, at offset {first.offset}")
        verdict.original = Original(first.offset, first.status, first.version, first.events)
        return True

    def _command(self, envelope: CommandEnvelope) -> Command:
        decode = self.aggregate.decode_command.get(envelope.type)
        if decode is None:
            known = ", ".join(self.aggregate.commands)
            raise UndecidableError("UNKNOWN_TYPE", f"{envelope.type} is none of {known}")
        data = bytes(envelope.data)
        try:
            if not data.isascii():
                data.decode()
            if self.aggregate.may_nest:
                check_nesting(data)
            return decode(data)
        except RecursionError:
            raise UndecidableError("INVALID_PAYLOAD", "nested too deeply") from None
        except ValueError as error:  # msgspec's errors are
            raise UndecidableError("INVALID_PAYLOAD", str(error)) from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # of the command's own `__post_init__`
            raise UndecidableError("HANDLER_ERROR", raised(error)) from error

    def _is_refused(
        self, record: Record, envelope: CommandEnvelope, verdict: Verdict, expected: str | None, version: int
    ) -> bool:
        """Whether the expiry or the expected version says no."""
        try:
            wanted = None if expected is None else parse_expected(expected)
        except ValueError as error:
            raise UndecidableError("INVALID_EXPECTED_VERSION", str(error)) from None
        if envelope.expirytime is not None:
            decided = max(record.timestamp, self.context.now())
            if decided > envelope.expirytime.timestamp() * 1000:
                _reject(verdict, "EXPIRED", f"expired at {envelope.expirytime.isoformat()}")
                verdict.decidedat = rfc3339(decided)
                return True
        if wanted is not None and (no := wanted.refusal(version)) is not None:
            _reject(verdict, no[0], no[1], retryable=no[0] == "VERSION_CONFLICT")
            return True
        return False

    def _accept(
        self, envelope: CommandEnvelope, verdict: Verdict, accepted: tuple[list[OutputRecord], Folded] | None
    ) -> None:
        if accepted is None:
            verdict.status = "unchanged"
            return
        events, after = accepted
        verdict.status = "accepted"
        verdict.version = after.version
        verdict.events = len(events)
        self.done.events += events
        self.states[envelope.subject] = after

    def _fail(
        self, record: Record, envelope: CommandEnvelope | None, verdict: Verdict, error: UndecidableError
    ) -> None:
        verdict.status = "failed"
        verdict.reason = error.reason
        verdict.message = cut(error.message)
        verdict.retryable = False
        if envelope is not None and verdict.fingerprint is UNSET:
            verdict.fingerprint = fingerprint(envelope.type, envelope.data, envelope.expected_text())
        letter = dead_letter(record, self.context.topic, self.context.partition, error.reason, error.message)
        self.done.dead_letters.append(letter)

    def _put_outcome(self, record: Record, envelope: CommandEnvelope | None, verdict: Verdict) -> None:
        self.status[verdict.status] += 1
        subject: str | UnsetType = UNSET
        cause: str | UnsetType = UNSET
        correlation: str | UnsetType = UNSET
        kind = "cqrs.failed"
        if envelope is not None:
            if verdict.status != "failed" or envelope.type in self.aggregate.commands:
                kind = f"{envelope.type}.{verdict.status}"
            if verdict.reason != "KEY_MISMATCH" or _is_text(record.key):
                subject, cause = envelope.subject, envelope.id
                correlation = envelope.correlationid or cause
        outcome = WrittenOutcome(
            "1.0",
            f"{self.context.partition}/{record.offset}",
            self.aggregate.ce_source,
            kind,
            subject,
            self.time_of(record),
            cause,
            correlation,
            verdict,
        )
        self.done.outcomes.append((write_outcome(outcome), record.key, record.timestamp))

    def time_of(self, record: Record) -> str:
        """The record's timestamp as text; records of one millisecond come together."""
        if record.timestamp != self.timestamp:
            self.timestamp, self.time = record.timestamp, rfc3339(record.timestamp)
        return self.time


def _reject(
    verdict: Verdict, reason: str, message: str, *, retryable: bool = False, code: str | None = None
) -> None:
    verdict.status = "rejected"
    verdict.reason = reason
    verdict.message = cut(message)
    verdict.retryable = retryable
    if code is not None:
        verdict.code = cut(code)


def _is_text(key: bytes | None) -> bool:
    try:
        return key is not None and bool(key.decode())
    except UnicodeDecodeError:
        return False
