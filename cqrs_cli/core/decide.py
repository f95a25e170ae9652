"""Decides a batch of command records with one pure function: the centre of the core.

Commands are decided in offset order, and each command sees the changes of all earlier commands. So the boundaries
between batches make no difference: the same records give the same bytes.
"""

import sys
from collections.abc import Iterable
from math import inf

from msgspec import UNSET

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command, Event
from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS, is_interrupt, raised_by_cqrs
from cqrs_cli.core.batch_state import BatchState
from cqrs_cli.core.checks import (
    check_key,
    check_partition,
    check_version,
    decoder_of,
    fingerprint_function,
    read_data,
    read_expected,
    require_key,
    without_unsafe_parts,
)
from cqrs_cli.core.context import BatchContext, DecisionInterrupted, Decisions
from cqrs_cli.core.decision_in_progress import DecisionInProgress
from cqrs_cli.core.deferral.requests import DeferralRequest
from cqrs_cli.core.deferral_checks import check_due_and_expiry, check_duplicate
from cqrs_cli.core.erasure import Erase
from cqrs_cli.core.fast_path import fast_path
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.outcome import Original
from cqrs_cli.core.messages.reasons import STATUSES, CheckFailed, Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.reserved import RESERVED_COMMANDS

_GIVEN_UP = (
    "its dead letter would be too large, the worker died while it read the bytes, or an operator used run "
    "--fail"
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
        self.current_record: Record | None = None  # read by the watchdog's thread
        self._fingerprint = fingerprint_function(aggregate)
        self._fast_path = fast_path(aggregate, context, self.decisions)

    def decide_piece(self, records: Iterable[Record], max_bytes: float = inf) -> Decisions:
        """Decide a piece. Return the batch's decisions so far, but only this piece's events, outcomes, dead letters,
        payloads and forwarded commands.

        The piece ends after the record with which the batch's events exceed `max_bytes`. Raises `DecisionInterrupted`;
        after that the batch must not be used.

        If the aggregate's code sets a trace function, Python calls it until the end of the piece, in functions of cqrs,
        too. If the trace function raises there, `DecisionInterrupted` is raised for the current command.
        """
        decisions = self.decisions
        (
            decisions.events,
            decisions.outcomes,
            decisions.dead_letters,
            decisions.payloads,
            decisions.forwards,
        ) = [], [], [], {}, []
        decisions.greatest_id = max(decisions.greatest_id, self.context.greatest_id())
        check, handle, trace_functions = self._fast_path, self.handle, (sys.gettrace(), sys.getprofile())
        try:
            for record in records:
                self.current_record = record
                if record.timestamp != self.timestamp:
                    self.advance_clock(record)
                if (checked := check(record, self.timestamp_text)) is not None:
                    handle(checked)
                else:
                    self._decide_generally(record)
                if self.event_bytes > max_bytes:
                    break
        except PROCESS_ERRORS as error:
            interruption = self._interruption(record, error)
        except BaseException as error:
            if is_interrupt(error) or raised_by_cqrs(error):
                raise
            interruption = self._interruption(record, error)
        else:
            self.counts["events"] += len(decisions.events)
            return decisions
        finally:
            self.current_record = None
            if (sys.gettrace(), sys.getprofile()) != trace_functions:
                sys.settrace(trace_functions[0])
                sys.setprofile(trace_functions[1])
        raise interruption  # not `from error`: the error would keep the memory of the aggregate's code alive

    def _interruption(self, record: Record, error: BaseException) -> DecisionInterrupted:
        decided_count = sum(self.counts[status] for status in STATUSES)
        return DecisionInterrupted(record.offset, decided_count, self.aggregate.describe_error(error))

    def _passes_checks(self, decision: DecisionInProgress) -> bool:
        """Run the checks of docs/messages.md in order. The comments have the numbers of the checks.

        Return True if the command passes all checks, False if its outcome is written. The first failed check raises
        `CheckFailed`.
        """
        context, offset = self.context, decision.record.offset
        if self.deferrals.active or offset in context.force_failed or offset in context.poison_reasons:
            self._load_deferral_and_poison(decision)
        key = require_key(decision.record.key)  # 1
        envelope = decision.envelope = read_command(decision.record)  # 2
        decision.shared = envelope.shared_members(self.timestamp_text)
        expected = self._set_fingerprint(decision, envelope)
        check_key(key, envelope.subject)  # 3
        if (target := check_partition(key, context)) is not None:  # 4
            self.forward_command(decision, envelope, target)
            return False
        self._load_state(decision, envelope.subject, expected)
        if (original := self._find_first_decision(decision, envelope)) is not None:  # 5
            self.write_duplicate(decision, original)
            return False
        decode = decoder_of(self.aggregate, envelope.type)  # 6
        decrypt = None if self.encryption is None else self.encryption.decryptor_for(decision, envelope)
        payloads, poison_reason = context.payloads, decision.poison_reason
        decision.command = read_data(self.aggregate, decode, envelope, payloads, poison_reason, decrypt)  # 7
        condition = read_expected(expected)  # 8
        check_due_and_expiry(context, decision, envelope)  # 9
        check_version(condition, decision.version)  # 10
        if envelope.type in RESERVED_COMMANDS:
            decision.reserved_events = self._decide_reserved(envelope, decision.command)
        return True

    def _decide_generally(self, record: Record) -> None:
        """Decide a command that does not take the fast path."""
        decision = DecisionInProgress(record)
        try:
            passes_checks = self._passes_checks(decision)
        except CheckFailed as failure:
            return self.write_failed_check(decision, failure)
        if passes_checks:
            self.handle(decision.checked_command(), decision)  # 11
        return None

    def _load_deferral_and_poison(self, decision: DecisionInProgress) -> None:
        """Look up whether an owner resubmitted the command, and whether it is poison; raise `CheckFailed` if it is
        given up.
        """
        offset = decision.record.offset
        decision.deferral = self.deferrals.find_resubmitted_at(offset)
        decision.poison_reason = self.context.poison_reasons.get(offset)
        if offset in self.context.force_failed:
            decision.record = without_unsafe_parts(decision.record)
            raise CheckFailed(Reason.TOO_LARGE, _GIVEN_UP)

    def _set_fingerprint(self, decision: DecisionInProgress, envelope: CommandEnvelope) -> str | None:
        """Store the command's fingerprint in `decision`, and return its expected version as text."""
        expected, deferral = envelope.expected_text(), decision.deferral
        fingerprint = (
            deferral.fingerprint if deferral else self._fingerprint(envelope.type, envelope.data, expected)
        )
        decision.fingerprint = fingerprint
        return expected

    def _load_state(self, decision: DecisionInProgress, subject: str, expected: str | None) -> None:
        """Store the aggregate's present state and the expected version in `decision`."""
        decision.state_before = self.states.get(subject) or self.context.state_of(subject)
        decision.expected_version = UNSET if expected is None else expected

    def _find_first_decision(
        self, decision: DecisionInProgress, envelope: CommandEnvelope
    ) -> Original | None:
        """Check 5: return the first decision on the command's id, None for a new id."""
        dedup_key = (envelope.subject, envelope.id)
        dedup_entry = self.dedup_entries.get(dedup_key) or self.context.dedup_entry_of(*dedup_key)
        return check_duplicate(
            self.deferrals,
            decision,
            envelope,
            dedup_entry,
            window_start=self.decisions.clock - self.context.dedup_window,
        )

    def _decide_reserved(self, envelope: CommandEnvelope, command: Command) -> tuple[Event, ...]:
        """Decide a reserved command (`Cancel`, `Release`, `Erase`) without the aggregate's code; return its events."""
        if isinstance(command, Erase):
            assert self.encryption is not None
            return self.encryption.decide_erase(envelope.subject, command)
        assert isinstance(command, DeferralRequest)
        target = self.deferrals.cancel_or_release(envelope.subject, envelope.id, command)
        self.extra_outcome_fields["target"] = target
        return ()
