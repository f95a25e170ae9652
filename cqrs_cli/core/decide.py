"""Decides a batch of command records with one pure function: the centre of the core.

Commands are decided in offset order, and each command sees the changes of all earlier commands. So the boundaries
between batches make no difference: the same records give the same bytes.
"""

from collections.abc import Iterable
from math import inf

from msgspec import UNSET

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS
from cqrs_cli.core.batch_state import BatchState
from cqrs_cli.core.checks import (
    check_key,
    check_partition,
    check_version,
    decoder_of,
    fingerprint_of,
    read_data,
    read_expected,
    require_key,
    without_bytes,
)
from cqrs_cli.core.context import BatchContext, DecisionInterrupted, Decisions
from cqrs_cli.core.decision_in_progress import DecisionInProgress
from cqrs_cli.core.deferral.requests import REQUESTS
from cqrs_cli.core.deferral_checks import check_original, check_time
from cqrs_cli.core.erasure import Erase
from cqrs_cli.core.fast_path import plain_checks
from cqrs_cli.core.handle import Answer, call_decide
from cqrs_cli.core.messages.command import CommandEnvelope, OrdinaryCommand, read_command
from cqrs_cli.core.messages.outcome import Original
from cqrs_cli.core.messages.reasons import STATUSES, CheckFailed, Reason
from cqrs_cli.core.messages.record import Record

_GIVEN_UP = (
    "its dead letter would be too large, the worker died on its bytes, or an operator gave it up: run --fail"
)


def decide_batch(aggregate: Aggregate, records: Iterable[Record], context: BatchContext) -> Decisions:
    """Decide every record, with exactly one outcome for each; raises `DecisionInterrupted` if the process fails."""
    return Batch(aggregate, context).decide_piece(records)


class Batch(BatchState):
    """The batch that is being decided: its changes so far, on top of the state that the context returns.

    A batch may be decided piece by piece, and the boundaries between pieces make no difference either. The records of a
    piece and their results fit into the CPU cache; a whole batch of 5,000 commands is 15 MB of Python objects.
    """

    def __init__(self, aggregate: Aggregate, context: BatchContext) -> None:
        super().__init__(aggregate, context)
        self.deciding: Record | None = None  # read by the watchdog's thread
        self._fingerprint = fingerprint_of(aggregate)
        self._plain = plain_checks(aggregate, context, self.done)

    def decide_piece(self, records: Iterable[Record], most_bytes: float = inf) -> Decisions:
        """Decide a piece. Return the batch's decisions so far, but only this piece's events, outcomes, dead letters,
        payloads and forwarded commands.

        The piece ends after the record with which the batch's events exceed `most_bytes`. Raises `DecisionInterrupted`;
        after that the batch must not be used.
        """
        done = self.done
        done.events, done.outcomes, done.dead_letters, done.payloads, done.forwards = [], [], [], {}, []
        decide = self._decide
        try:
            for record in records:
                self.deciding = record
                decide(record)
                if self.event_bytes > most_bytes:
                    break
        except PROCESS_ERRORS as error:
            undecided = self._undecided(record, error)
        else:
            self.counts["events"] += len(done.events)
            return done
        finally:
            self.deciding = None
        raise undecided  # not `from error`: the error would keep the memory of the aggregate's code alive

    def _undecided(self, record: Record, error: BaseException) -> DecisionInterrupted:
        before = sum(self.counts[status] for status in STATUSES)
        return DecisionInterrupted(record.offset, before, self.aggregate.raised(error))

    def _decide(self, record: Record) -> None:
        """Run the checks in the order of docs/messages.md, under its numbers. The first failed check is the reason."""
        aggregate, case = self.aggregate, DecisionInProgress(record)
        if record.timestamp != self.timestamp:
            self.clock(record)
        is_marked = self.deferrals.active or record.offset in self.marked
        try:
            if is_marked:
                self._admit(case)
            key = record.key or require_key(record.key)  # 1
            envelope = case.envelope = read_command(case.record)  # 2
            if type(envelope) is OrdinaryCommand and not is_marked:
                command = self._plain(case, key, envelope)  # 3 to 10
                if command is not None:
                    # No local variable for the result: an exception in it refers to this frame, which would be a cycle.
                    return self.conclude(case, call_decide(aggregate, record, envelope, command, case.before))
            expected = self._identify(case, envelope)
            check_key(key, envelope.subject)  # 3
            if (heir := check_partition(key, self.context)) is not None:  # 4
                return self.forward(case, envelope, heir)
            self._look_up(case, envelope.subject, expected)
            if (original := self._first_decision(case, envelope)) is not None:  # 5
                return self.conclude(case, original)
            decode = decoder_of(aggregate, envelope.type)  # 6
            unseal = None if self.sealer is None else self.sealer.unsealing(case, envelope)
            command = read_data(aggregate, decode, envelope, self.context.payloads, case.blame, unseal)  # 7
            wanted = read_expected(expected)  # 8
            check_time(self.context, case, envelope)  # 9
            check_version(wanted, case.version)  # 10
            return self.conclude(case, self._ask(case, envelope, command))  # 11
        except CheckFailed as refused:
            return self.refuse(case, refused)

    def _admit(self, case: DecisionInProgress) -> None:
        """Look up whether the command was resubmitted, is blamed for worker losses, or is given up (`CheckFailed`)."""
        offset = case.record.offset
        case.entry = self.deferrals.said_at(offset)
        case.blame = self.context.blamed.get(offset)
        if offset in self.context.refused:
            case.record = without_bytes(case.record)
            raise CheckFailed(Reason.TOO_LARGE, _GIVEN_UP)

    def _identify(self, case: DecisionInProgress, envelope: CommandEnvelope) -> str | None:
        """Store the command's fingerprint in the case, and return its expected version as text."""
        expected, entry = envelope.expected_text(), case.entry
        mark = entry.fingerprint if entry else self._fingerprint(envelope.type, envelope.data, expected)
        case.mark = mark
        return expected

    def _look_up(self, case: DecisionInProgress, subject: str, expected: str | None) -> None:
        """Store the aggregate's present state and the expected version in the case."""
        case.before = self.states.get(subject) or self.context.state(subject)
        case.expected = UNSET if expected is None else expected

    def _first_decision(self, case: DecisionInProgress, envelope: CommandEnvelope) -> Original | None:
        """Check 5: return the first decision on the command's id, None for a new id."""
        key = (envelope.subject, envelope.id)
        first = self.remembered.get(key) or self.context.remembered(*key)
        return check_original(
            self.deferrals, case, envelope, first, expired=self.done.clock - self.context.window
        )

    def _ask(self, case: DecisionInProgress, envelope: CommandEnvelope, command: Command) -> Answer:
        """Check 11, first half: call `decide`, or decide a reserved command (`Cancel`, `Release`, `Erase`)."""
        if envelope.type in REQUESTS:
            self.told["target"] = self.deferrals.request(envelope.subject, envelope.id, command)
            return ()
        if self.sealer is not None and isinstance(command, Erase):
            return self.sealer.erase(envelope.subject, command)
        return call_decide(self.aggregate, case.record, envelope, command, case.before)
