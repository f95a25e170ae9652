"""Checks for `verify` that a command, its outcome, its events and its dead letter match."""

from collections.abc import Iterator, Mapping
from itertools import chain

from cqrs_cli.proof.dead_letters import checksums
from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.deferrals import DeferralRules
from cqrs_cli.proof.duplicates import Duplicates
from cqrs_cli.proof.findings import DecidedRange, Findings, LogName, Losses, Report
from cqrs_cli.proof.forwarded_commands import ForwardedCommands
from cqrs_cli.proof.index_entries import DeadLetterEntry, EventsEntry, Lookup, OutcomeEntry, checksums_differ
from cqrs_cli.proof.join import JoinedCommand
from cqrs_cli.proof.key_rules import KeyRules
from cqrs_cli.proof.outcome_checks import PROPAGATED_NAMES, check_outcome, was_given_up
from cqrs_cli.proof.positions import CommandPosition, OpenDeferral
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.verification_checkpoint import VerificationCheckpoint
from cqrs_cli.proof.versions import Versions


class Rules:
    """Checks the commands in order, and passes each to the rules of other modules, such as `Duplicates`."""

    def __init__(
        self,
        scope: Scope,
        decided_range: DecidedRange,
        known_outcomes: Lookup,
        dedup: DedupIndex,
        findings: Findings,
        earlier_checkpoint: VerificationCheckpoint | None = None,
        open_deferrals: Mapping[CommandPosition, OpenDeferral] | None = None,
        events_complete: bool = True,
    ) -> None:
        """`known_outcomes`: also finds the outcomes before the checkpoint. `open_deferrals`, `events_complete`:
        inherited from the parents; not used with `earlier_checkpoint`.
        """
        report = Report() if earlier_checkpoint is None else earlier_checkpoint.report
        self.command_count = report.commands
        self.given_up = report.given_up
        self.deleted: dict[LogName, int] = {"commands": 0, "outcomes": 0, "dead-letters": 0, **report.deleted}
        self._scope = scope
        self._decided_range = decided_range
        self._dedup = dedup
        self._add_violation = findings.add_violation
        losses = Losses(decided_range, scope.loss.restart_command if scope.loss else None, findings)
        self._report_missing = losses.report_missing
        self._duplicates = Duplicates(scope, decided_range, losses, known_outcomes, dedup, findings)
        self.deferrals = DeferralRules(scope, decided_range, known_outcomes, findings)
        self.events_complete = events_complete and not scope.starts["events"]
        self.forwarded = (
            None
            if scope.key_history is None
            else ForwardedCommands(report.forwarded_to, report.received_from)
        )
        if earlier_checkpoint is not None:
            self.deferrals.open_deferrals.update(earlier_checkpoint.open_deferrals)
            self.events_complete = earlier_checkpoint.events_complete
        else:
            self.deferrals.open_deferrals.update(open_deferrals or {})
        self._versions = Versions(self.events_complete, losses, dedup, findings)
        self._versions.aggregate_count = report.aggregates
        self._keys = (
            None if scope.personal is None else KeyRules(scope, dedup, findings, self.events_complete)
        )

    @property
    def aggregate_count(self) -> int:
        """The number of aggregates found so far."""
        return self._versions.aggregate_count

    def check_until(self, end: int, commands: Iterator[JoinedCommand]) -> Iterator[JoinedCommand]:
        """Check the commands before the offset `end`; return an iterator over the other commands."""
        for joined in commands:
            if joined.offset >= end:
                return chain([joined], commands)
            self.check_command(joined)
        return commands

    def check_command(self, joined: JoinedCommand) -> None:
        """Report all violations of one command."""
        offset, record, outcome, events, dead_letter = joined
        self.command_count += record is not None
        if self.forwarded is not None:
            self.forwarded.count_command(self._scope.partition, offset, record, outcome)
        if outcome is None:
            self._check_undecided(joined)
        else:
            self.given_up += was_given_up(outcome)
            self._check_outcome(joined, outcome)
            self._dedup.advance_clock(outcome.timestamp)
            self._duplicates.check_decision(offset, outcome)
            self.deferrals.check_outcome(offset, record, outcome)
            if events is not None:
                self._check_events(offset, outcome, events)
            self._check_dead_letter(joined, outcome, dead_letter)
        self._versions.check_version(offset, outcome, events)
        if self._keys is not None:
            self._keys.check_keys(record, outcome, events)

    def _check_undecided(self, joined: JoinedCommand) -> None:
        """Report a command without an outcome, and its events or dead letter."""
        offset, decided_range = joined.offset, self._decided_range
        if offset < decided_range.first_outcome:
            self.deleted["outcomes"] += 1
            return
        if joined.command is not None:
            self._report_missing(offset, "commands", offset, "has no outcome")
        entries: tuple[tuple[LogName, EventsEntry | DeadLetterEntry | None], ...]
        entries = (("events", joined.events), ("dead-letters", joined.dead_letter))
        for log, entry in entries:
            if entry is not None and offset >= decided_range.decided_upper:
                self._add_violation(log, entry.offset, f"is of command {offset}, which is not decided yet")
            elif entry is not None:
                self._report_missing(
                    offset, log, entry.offset, f"is of command {offset}, which has no outcome"
                )

    def _check_outcome(self, joined: JoinedCommand, outcome: OutcomeEntry) -> None:
        """Compare an outcome with its command."""
        offset, end = joined.offset, self._decided_range.decided_upper
        if offset >= end:
            problem = f"is of command {offset}, but by the committed offset only the commands before {end} are decided"
            self._add_violation("outcomes", outcome.offset, problem)
        elif joined.command is not None:
            for problem in check_outcome(self._scope, joined.command, outcome):
                self._add_violation("outcomes", outcome.offset, problem)
        elif offset < self._decided_range.first_command:
            self.deleted["commands"] += 1
        else:
            self._add_violation("outcomes", outcome.offset, f"is of command {offset}, which does not exist")

    def _check_events(self, offset: int, outcome: OutcomeEntry, events: EventsEntry) -> None:
        """Compare events with the outcome of their command: cause, number, last version and timestamp."""
        first_offset = events.offset
        if outcome.status != "accepted":
            self._add_violation(
                "events", first_offset, f"is of command {offset}, whose outcome is {outcome.result}"
            )
            return
        if events.count != outcome.events:
            problem = (
                f"is one of {events.count} events of command {offset}, whose outcome says {outcome.events}"
            )
            self._add_violation("events", first_offset, problem)
        elif events.last_version != outcome.version:
            problem = (
                f"leads {events.subject!r} to version {events.last_version}, its command's outcome to"
                f" {outcome.version}"
            )
            self._add_violation("events", first_offset, problem)
        actual = (events.subject, events.cause, events.correlation)
        expected = (outcome.subject, outcome.cause, outcome.correlation)
        if actual != expected:
            problem = f"has subject, causationid and correlationid {actual}, its command's outcome {expected}"
            self._add_violation("events", first_offset, problem)
        if checksums_differ(events.propagated_checksum, outcome.propagated_checksum):
            self._add_violation(
                "events", first_offset, f"does not have the {PROPAGATED_NAMES} of its command's outcome"
            )
        if events.timestamp != outcome.timestamp:
            self._add_violation(
                "events", first_offset, "does not have the timestamp of its command's outcome"
            )

    def _check_dead_letter(
        self, joined: JoinedCommand, outcome: OutcomeEntry, dead_letter: DeadLetterEntry | None
    ) -> None:
        """Compare a dead letter with its outcome and its command. Only failed commands have a dead letter."""
        offset, failed = joined.offset, outcome.status == "failed"
        if dead_letter is None:
            if failed and offset < self._decided_range.first_dead_letter:
                self.deleted["dead-letters"] += 1
            elif failed:
                problem = f"is of command {offset}, which has no dead letter"
                self._report_missing(offset, "outcomes", outcome.offset, problem)
            return
        dead_letter_offset = dead_letter.offset
        if not failed:
            self._add_violation(
                "dead-letters",
                dead_letter_offset,
                f"is of command {offset}, whose outcome is {outcome.result}",
            )
            return
        actual = (dead_letter.reason, dead_letter.key, dead_letter.timestamp)
        if actual != (outcome.reason, outcome.key, outcome.timestamp):
            self._add_violation(
                "dead-letters",
                dead_letter_offset,
                "has another reason, key or timestamp than its command's outcome",
            )
        if checksums_differ(dead_letter.message_checksum, outcome.message_checksum):
            self._add_violation(
                "dead-letters", dead_letter_offset, "has another message than its command's outcome"
            )
        if was_given_up(outcome):
            if (dead_letter.value_checksum, dead_letter.headers_checksum) != checksums(None, None):
                self._add_violation(
                    "dead-letters",
                    dead_letter_offset,
                    f"keeps bytes or headers of command {offset}, which was given up",
                )
        elif joined.command is not None:
            expected_checksums = checksums(joined.command.value, joined.command.headers)
            if (dead_letter.value_checksum, dead_letter.headers_checksum) != expected_checksums:
                self._add_violation(
                    "dead-letters",
                    dead_letter_offset,
                    f"does not have the bytes and headers of command {offset}",
                )
