"""The rules for deferred commands. They rely on outcomes, because compaction of the deferred topic could hide a fault.

An outcome `deferred` opens a deferral of its command. The outcome of a resubmitted command (`deferredfrom`) needs an
open deferral, and closes it unless the command is deferred again. At the end, the deferred topic must have an entry for
each open deferral, and no other entry. An open deferral takes about 300 bytes of memory.
"""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from cqrs_cli.core.deferral.entry import MAX_TIMESTAMP, due_of
from cqrs_cli.core.messages.command import CommandEnvelope, command_or_none
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.proof.deferred_log import DeferredEntry
from cqrs_cli.proof.documents import (
    deferred_document_digest,
    fits_document,
    requested_id,
    resubmitted_document_digest,
)
from cqrs_cli.proof.findings import DecidedRange, Findings
from cqrs_cli.proof.index_entries import Lookup, OutcomeEntry
from cqrs_cli.proof.join import find_outcome
from cqrs_cli.proof.positions import CommandPosition, OpenDeferral, parse_parent_position
from cqrs_cli.proof.scope import Scope

#: Reasons of checks 1 to 5 in docs/messages.md. A command whose `deferredfrom` was not written by an owner fails with
#: one of these reasons.
_REASONS_BEFORE_DEDUP = {reason.name for reason in Reason if reason.check <= 5}


#: Reasons that are allowed for a command that was resubmitted before it was due.
_REASONS_BEFORE_DUE = {"NOT_YET", "CANCELLED"}


class DeferralRules:
    """Checks the outcomes in the order of the commands; call `compare_entries` after the last outcome."""

    def __init__(
        self, scope: Scope, decided_range: DecidedRange, outcomes: Lookup, findings: Findings
    ) -> None:
        #: The open deferrals, by the position of the deferred command.
        self.open_deferrals: dict[CommandPosition, OpenDeferral] = {}
        self._scope, self._decided_range, self._outcomes, self._findings = (
            scope,
            decided_range,
            outcomes,
            findings,
        )

    def check_outcome(self, offset: int, record: Record | None, outcome: OutcomeEntry) -> None:
        """Check the outcome of the command at `offset`. `record`: the command; None if it was deleted."""
        envelope = command_or_none(record)
        if outcome.target is not None or outcome.type in ("cqrs.Cancel.unchanged", "cqrs.Release.unchanged"):
            self._check_target(envelope, outcome)
        if outcome.deferredfrom is not None:
            self._check_resubmission(record, envelope, outcome, outcome.deferredfrom)
            return
        if outcome.status == "deferred" and outcome.reason != "MOVED":
            self._check_due_and_attempt(outcome, 0 if outcome.reason == "NOT_YET" else 1)
            self.open_deferrals[offset] = OpenDeferral(
                outcome.due,
                outcome.attempt or 0,
                deferred_document_digest(record, self._scope.redact_document),
            )
        has_deferredfrom = envelope is not None and envelope.deferredfrom is not None
        if has_deferredfrom and outcome.status != "duplicate" and outcome.reason not in _REASONS_BEFORE_DEDUP:
            self._add_violation(outcome, f"is {outcome.result}, but no owner has resubmitted its command")

    def _check_due_and_attempt(self, outcome: OutcomeEntry, attempt: int) -> None:
        if outcome.attempt is not None and outcome.attempt != attempt:
            self._add_violation(
                outcome, f"is {outcome.result} at attempt {outcome.attempt} instead of {attempt}"
            )
        if outcome.due is not None and not (outcome.timestamp < outcome.due or outcome.due == MAX_TIMESTAMP):
            self._add_violation(outcome, f"is deferred until {rfc3339(outcome.due)}, which was in the past")

    def _check_target(self, envelope: CommandEnvelope | None, outcome: OutcomeEntry) -> None:
        if outcome.target is None:
            self._add_violation(outcome, "does not name the deferred command that it cancels or releases")
            return
        target, named_id = outcome.target
        if outcome.status != "unchanged":
            self._add_violation(outcome, f"is {outcome.result}, but has a target")
        elif target in self.open_deferrals:
            self._check_target_id(target, named_id, envelope, outcome)
            cancelled = self.open_deferrals[target].cancelled or outcome.type.startswith("cqrs.Cancel.")
            self.open_deferrals[target] = replace(
                self.open_deferrals[target], cancelled=cancelled, released=True
            )
        elif not self._is_unknown(target):
            self._add_violation(outcome, f"is about command {target}, which is not deferred")

    def _check_target_id(
        self, target: CommandPosition, named_id: str, envelope: CommandEnvelope | None, outcome: OutcomeEntry
    ) -> None:
        target_outcome = find_outcome(self._outcomes, target)
        if target_outcome is not None and (target_outcome.subject, target_outcome.cause) != (
            outcome.subject,
            named_id,
        ):
            self._add_violation(
                outcome, f"is about {named_id!r}, but command {target} has another subject or id"
            )
        if named_id == outcome.cause:
            self._add_violation(outcome, f"is about {named_id!r}, which is its own command")
        requested = None if envelope is None else requested_id(envelope)
        if requested is not None and requested != named_id:
            self._add_violation(outcome, f"is about {named_id!r}, but its command is about {requested!r}")

    def _check_resubmission(
        self,
        record: Record | None,
        envelope: CommandEnvelope | None,
        outcome: OutcomeEntry,
        deferredfrom: str,
    ) -> None:
        if outcome.status == "duplicate" or outcome.reason == "NOT_RELEASED":
            self._add_violation(outcome, f"is {outcome.result}, but has a deferredfrom")
            return
        if envelope is not None and envelope.deferredfrom != deferredfrom:
            self._add_violation(
                outcome, f"says deferredfrom {deferredfrom!r}, but its command says {envelope.deferredfrom!r}"
            )
        if (position := self._position_of(deferredfrom)) is None:
            if self._scope.loss is None:
                self._add_violation(
                    outcome, f"says deferredfrom {deferredfrom!r}, which is not of this partition"
                )
            return  # after a loss, `deferredfrom` may name a command of a deleted topic
        if position not in self.open_deferrals:
            if not self._is_unknown(position):
                self._add_violation(
                    outcome, f"is of command {position}, which is not deferred any more, or never was"
                )
            return
        self._compare_with_deferral(outcome, position)
        if record is not None:
            for problem in self._resubmission_problems(record, envelope, position, deferredfrom):
                self._add_violation(outcome, problem)
        if outcome.status != "deferred":
            del self.open_deferrals[position]

    def _position_of(self, deferredfrom: str) -> CommandPosition | None:
        """Return the position in a `deferredfrom`; None if it names neither this partition nor a parent."""
        partition, offset = parse_parent_position(deferredfrom) or (-1, 0)
        if partition == self._scope.partition:
            return offset
        return deferredfrom if partition in self._decided_range.parents else None

    def _compare_with_deferral(self, outcome: OutcomeEntry, position: CommandPosition) -> None:
        first_outcome, deferral = find_outcome(self._outcomes, position), self.open_deferrals[position]
        if deferral.cancelled and outcome.reason != "CANCELLED" and outcome.status != "failed":
            self._add_violation(outcome, f"is {outcome.result}, though command {position} was cancelled")
        self._check_early(outcome, position, deferral)
        if outcome.reason == "CANCELLED" and not deferral.cancelled:
            self._add_violation(outcome, f"is CANCELLED, though nobody has cancelled command {position}")
        if outcome.reason == "GAVE_UP" and outcome.attempt not in (None, deferral.attempt):
            self._add_violation(
                outcome,
                f"gave up after {outcome.attempt} attempts, command {position} had {deferral.attempt}",
            )
        if outcome.reason == "NOT_YET":
            self._check_due_and_attempt(outcome, deferral.attempt)
            if deferral.released or outcome.due not in (None, deferral.due):
                self._add_violation(outcome, f"is NOT_YET, but command {position} is due at another time")
        elif outcome.status == "deferred":
            self._check_due_and_attempt(outcome, deferral.attempt + 1)
            self.open_deferrals[position] = replace(
                deferral, due=outcome.due, attempt=outcome.attempt or 0, released=False
            )
        if first_outcome is None or outcome.cause is None:
            return
        if (first_outcome.subject, first_outcome.cause) != (outcome.subject, outcome.cause):
            self._add_violation(outcome, f"is of command {position}, which has another subject or id")
        elif first_outcome.fingerprint != outcome.fingerprint:
            self._add_violation(outcome, f"does not have the fingerprint of command {position}")
        elif first_outcome.correlation != outcome.correlation:
            self._add_violation(outcome, f"does not have the correlationid of command {position}")

    def _check_early(self, outcome: OutcomeEntry, position: CommandPosition, deferral: OpenDeferral) -> None:
        """Check that a command was not decided before it was due.

        The time of the decision is the outcome's timestamp, which is the timestamp of the resubmitted record.
        """
        if deferral.due is None or deferral.released or deferral.cancelled or self._scope.loss is not None:
            return
        milliseconds_early = deferral.due - outcome.timestamp
        is_failed_by_operator = outcome.fingerprint is None
        if (
            milliseconds_early > self._scope.clock_tolerance
            and outcome.reason not in _REASONS_BEFORE_DUE
            and not is_failed_by_operator
        ):
            self._add_violation(
                outcome,
                f"is {outcome.result}, {milliseconds_early // 1000} s before command {position} was due",
            )

    def _resubmission_problems(
        self, record: Record, envelope: CommandEnvelope | None, position: CommandPosition, deferredfrom: str
    ) -> Iterator[str]:
        """Yield the reasons why a record is not an owner's resubmission of the command at `position`.

        If the record of the command was deleted, the resubmission is compared with the command's outcome.
        """
        resubmitted_digest = resubmitted_document_digest(record, deferredfrom, self._scope.redact_document)
        deferred_digest = self.open_deferrals[position].document_digest
        first_outcome = find_outcome(self._outcomes, position)
        if resubmitted_digest is None or envelope is None:
            yield f"is of a record that no owner wrote to resubmit command {position}"
        elif deferred_digest is not None:
            if resubmitted_digest != deferred_digest:
                yield f"is of a record that resubmits another command than {position}"
        elif first_outcome is not None and first_outcome.fingerprint is not None:
            notbefore = envelope.notbefore
            if not fits_document(envelope, first_outcome.fingerprint, self._scope.fits_command):
                yield f"is of a record that resubmits another command than {position}: the fingerprints differ"
            elif first_outcome.reason == "NOT_YET" and (
                notbefore is None or due_of(notbefore) != first_outcome.due
            ):
                yield f"is of a record that resubmits command {position} with another notbefore"

    def _is_unknown(self, command: CommandPosition) -> bool:
        """True if a command cannot be checked: its outcome was deleted, or it is before an accepted loss."""
        loss = self._scope.loss
        is_before_loss = loss is not None and isinstance(command, int) and command < loss.restart_command
        return is_before_loss or self._decided_range.is_deleted(command)

    def compare_entries(
        self, entries: Mapping[CommandPosition, DeferredEntry], commands: Iterable[Record]
    ) -> None:
        """Compare the open deferrals with the latest entries of the deferred topic.

        Call it only if no owner decided while the logs were read. `commands`: the commands that are not decided yet.
        """
        for position, deferral in self.open_deferrals.items():
            entry = entries.get(position)
            if entry is not None:
                for problem in self._entry_problems(position, deferral, entry):
                    self._findings.add_violation("deferred", entry.offset, problem)
            elif self._is_unknown(position):
                continue
            elif isinstance(position, int):
                self._findings.add_violation(
                    "commands", position, "is deferred, but is missing in the deferred topic"
                )
            else:
                problem = f"lacks the deferred command {position}"
                self._findings.add_violation("deferred", self._scope.starts.get("deferred", 0), problem)
        for position, entry in entries.items():
            if position not in self.open_deferrals and not self._is_unknown(position):
                self._findings.add_violation(
                    "deferred", entry.offset, f"is of command {position}, which is not deferred"
                )
        self._check_resubmitted_entries(entries, commands)

    def _entry_problems(
        self, position: CommandPosition, deferral: OpenDeferral, entry: DeferredEntry
    ) -> Iterator[str]:
        """Yield the contradictions between the latest entry of a command and its outcomes."""
        if entry.cancelled != deferral.cancelled:
            yield f"says that command {position} is{'' if entry.cancelled else ' not'} cancelled"
        if entry.attempt != deferral.attempt:
            yield f"is attempt {entry.attempt} of command {position}, its outcome says {deferral.attempt}"
        allowed_due_times: set[int | None] = {0} if deferral.released else {deferral.due}
        # The command may have been resubmitted before the release.
        if deferral.released and entry.resubmitted_offset is not None:
            allowed_due_times.add(deferral.due)
        if self._scope.loss is not None:  # after a loss, owners resubmit lost commands at once
            allowed_due_times.add(0)
        if deferral.due is not None and entry.due not in allowed_due_times:
            yield f"says that command {position} is due at {rfc3339(entry.due)}, but its outcomes say otherwise"
        if deferral.document_digest is not None and entry.document_digest != deferral.document_digest:
            yield f"holds another command than {position}"

    def _check_resubmitted_entries(
        self, entries: Mapping[CommandPosition, DeferredEntry], commands: Iterable[Record]
    ) -> None:
        positions_by_offset = {
            entry.resubmitted_offset: position
            for position, entry in entries.items()
            if entry.resubmitted_offset is not None
        }
        for record in commands if positions_by_offset else ():
            position = positions_by_offset.get(record.offset)
            deferredfrom = position if isinstance(position, str) else f"{self._scope.partition}/{position}"
            envelope = None if position is None else command_or_none(record)
            if position is not None and envelope is not None and envelope.deferredfrom == deferredfrom:
                if (
                    resubmitted_document_digest(record, deferredfrom, self._scope.redact_document)
                    != entries[position].document_digest
                ):
                    problem = f"resubmits another command than {position}, which its deferredfrom names"
                    self._findings.add_violation("commands", record.offset, problem)
                del positions_by_offset[record.offset]
        for offset, position in positions_by_offset.items():
            if not self._is_unknown(position) and self._scope.loss is None:
                problem = f"says that command {position} was resubmitted at {offset}: that record is another command"
                self._findings.add_violation("deferred", entries[position].offset, problem)

    def _add_violation(self, outcome: OutcomeEntry, problem: str) -> None:
        self._findings.add_violation("outcomes", outcome.offset, problem)
