"""The centre: deciding a batch of command records, as one pure function.

Commands are decided in offset order, later ones seeing what earlier ones changed, so that the cuts between batches make
no difference: the same records give the same bytes.
"""

from collections.abc import Iterable
from math import inf

from msgspec import UNSET

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.invalid import PROCESS_ERRORS, raised
from cqrs_cli.core.checks import (
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
from cqrs_cli.core.context import BatchContext, Decisions, Undecided
from cqrs_cli.core.deferral.requests import REQUESTS
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.handle import call_decide
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.fingerprint import fingerprint
from cqrs_cli.core.messages.outcome import WrittenVerdict
from cqrs_cli.core.messages.reasons import STATUSES, Reason, Refused
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.overlay import Overlay
from cqrs_cli.core.plain import PlainPath
from cqrs_cli.core.stored import DedupEntry
from cqrs_cli.core.waiting import check_original, check_time

_GIVEN_UP = (
    "its dead letter would be too large, the worker died on its bytes, or an operator gave it up: run --fail"
)


def decide_batch(aggregate: Aggregate, records: Iterable[Record], context: BatchContext) -> Decisions:
    """Decide every record: exactly one outcome each. Raises nothing that a record could cause but `Undecided`."""
    return Batch(aggregate, context).decide_piece(records)


class Batch(Overlay):
    """One batch under way: an overlay of what it changed over what the context answers.

    It may be decided piece by piece, and the cuts between pieces make no difference, either. The few records of a piece
    and what they come to stay in the processor's cache: 5,000 commands are 15 MB of Python objects.
    """

    def __init__(self, aggregate: Aggregate, context: BatchContext) -> None:
        super().__init__(aggregate, context)
        self.deciding: Record | None = None  # for others to watch

    def decide_piece(self, records: Iterable[Record], most_bytes: float = inf) -> Decisions:
        """The decisions of the batch so far; events, outcomes and the like are those of these records alone.

        It ends after the record with which the batch's events have more than `most_bytes`. Raises `Undecided`; the
        batch is then of no use.
        """
        done = self.done
        done.events, done.outcomes, done.dead_letters, done.payloads = [], [], [], {}
        decide_plainly = PlainPath(self).decide  # of this piece: a batch that held it would be a cycle
        try:
            for record in records:
                self.deciding = record
                if not decide_plainly(record):
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
        aggregate, context, clock = self.aggregate, self.context, self.clock(record)
        envelope: CommandEnvelope | None = None
        verdict = WrittenVerdict(status="unchanged", partition=context.partition, offset=record.offset)
        mark, blame, deferrals = 0, None, self.deferrals
        entry = deferrals.said_at(record.offset) if deferrals.active else None
        try:
            if record.offset in self.marked:
                blame = context.blamed.get(record.offset)
                if record.offset in context.refused:
                    record = without_bytes(record)
                    raise Refused(Reason.TOO_LARGE, _GIVEN_UP)
            key = require_key(record.key)  # 1
            envelope = read_command(record)  # 2
            expected = envelope.expected_text()
            mark = entry.fingerprint if entry else fingerprint(envelope.type, envelope.data, expected)
            verdict.fingerprint = mark
            check_key(key, envelope.subject)  # 3
            check_partition(key, context)  # 4
            before = self._state(envelope.subject)
            verdict.version = before.version if before else 0
            verdict.expected = UNSET if expected is None else expected
            first, expired = self._first_decision(envelope), clock - context.window
            if deferrals.active or envelope.deferredfrom is not None:
                original = check_original(deferrals, entry, envelope, first, mark, expired)
            else:
                original = check_id(first, mark, expired)  # 5
            if original is not None:
                verdict.status, verdict.original = "duplicate", original
                return self.put_outcome(record, envelope, verdict)
            decode = decoder_of(aggregate, envelope.type)  # 6
            if blame is not None:
                raise Refused(Reason.HANDLER_ERROR, blame)
            command = read_data(aggregate, decode, envelope, context.payloads)  # 7
            wanted = read_expected(expected)  # 8
            if envelope.notbefore is not None or envelope.expirytime is not None:
                check_time(context, record, envelope, verdict, entry)  # 9
            check_version(wanted, verdict.version)  # 10
            if envelope.type in REQUESTS:
                self.told["target"] = deferrals.request(envelope.subject, command)
        except Refused as refused:
            remembered = self.refuse(record, verdict, refused)
            return self.put_outcome(record, envelope, verdict, mark if remembered else None, entry)
        decided = (record, envelope, verdict, mark, before)
        if envelope.type in REQUESTS:
            return self.conclude(*decided, (), entry)
        # The answer gets no name: an exception in it holds this frame, and they would be a cycle.
        return self.conclude(*decided, call_decide(aggregate, record, envelope, command, before), entry)  # 11

    def _state(self, aggregate_id: str) -> Folded | None:
        return self.states.get(aggregate_id) or self.context.state(aggregate_id)

    def _first_decision(self, envelope: CommandEnvelope) -> DedupEntry | None:
        key = (envelope.subject, envelope.id)
        return self.remembered.get(key) or self.context.remembered(*key)
