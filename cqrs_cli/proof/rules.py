"""The rules between a command, its outcome, its events and its dead letter."""

from collections.abc import Iterator
from itertools import chain

from cqrs_cli.proof.dead_letters import checksums
from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.deferrals import DeferralRules
from cqrs_cli.proof.duplicates import Duplicates
from cqrs_cli.proof.findings import DecidedRange, Findings, LogName, Losses, Report
from cqrs_cli.proof.forwarded_commands import MovedCommands
from cqrs_cli.proof.join import JoinedCommand
from cqrs_cli.proof.key_rules import KeyRules
from cqrs_cli.proof.outcome_checks import PROPAGATED_NAMES, check_outcome, given_up
from cqrs_cli.proof.parent_results import FamilyIndex, ParentResults
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import DeadLetterTrace, EventsTrace, Index, OutcomeTrace, differ
from cqrs_cli.proof.verification_checkpoint import VerificationCheckpoint
from cqrs_cli.proof.versions import Versions


class Rules:
    """Checks the commands in order, with all rules."""

    def __init__(
        self,
        scope: Scope,
        decided: DecidedRange,
        outcomes: Index,
        dedup: DedupIndex,
        findings: Findings,
        earlier: VerificationCheckpoint | None = None,
        inherited: ParentResults | None = None,
    ) -> None:
        report = Report() if earlier is None else earlier.report
        self.commands = report.commands
        self.given_up = report.given_up
        self.deleted: dict[LogName, int] = {"commands": 0, "outcomes": 0, "dead-letters": 0, **report.deleted}
        self._scope = scope
        self._decided = decided
        self._dedup = dedup
        self._add = findings.add
        losses = Losses(decided, scope.loss.at if scope.loss else None, findings)
        self._missing = losses.missing
        known = FamilyIndex(outcomes, {} if inherited is None else inherited.parents)
        self._duplicates = Duplicates(scope, decided, losses, known, dedup, findings)
        self.deferrals = DeferralRules(scope, decided, known, findings)
        self.has_begin = not scope.starts["events"]
        self.moved = None if scope.homes is None else MovedCommands(report.moved, report.forwarded)
        if earlier is not None:
            self.deferrals.open.update(earlier.deferred)
            self.has_begin = earlier.has_begin
        elif inherited is not None:
            self.deferrals.open.update(inherited.open)
            self.has_begin = self.has_begin and inherited.has_begin
            dedup.at(inherited.clock)
        self._versions = Versions(self.has_begin, losses, dedup, findings)
        self._versions.aggregates = report.aggregates
        self._keys = None if scope.personal is None else KeyRules(scope, dedup, findings, self.has_begin)

    @property
    def aggregates(self) -> int:
        """The number of aggregates found so far."""
        return self._versions.aggregates

    def check_below(self, end: int, source: Iterator[JoinedCommand]) -> Iterator[JoinedCommand]:
        """Check the commands before `end`; return the other commands."""
        for joined in source:
            if joined.offset >= end:
                return chain([joined], source)
            self.check(joined)
        return source

    def check(self, joined: JoinedCommand) -> None:
        """Report all violations of one command."""
        offset, record, outcome, events, dead_letter = joined
        self.commands += record is not None
        if self.moved is not None:
            self.moved.note(self._scope.partition, offset, record, outcome)
        if outcome is None:
            self._check_undecided(joined)
        else:
            self.given_up += given_up(outcome)
            self._check_outcome(joined, outcome)
            self._dedup.at(outcome.timestamp)
            self._duplicates.check(offset, outcome)
            self.deferrals.check(offset, record, outcome)
            if events is not None:
                self._check_events(offset, outcome, events)
            self._check_dead_letter(joined, outcome, dead_letter)
        self._versions.check(offset, outcome, events)
        if self._keys is not None:
            self._keys.check(record, outcome, events)

    def _check_undecided(self, joined: JoinedCommand) -> None:
        """Report a command without an outcome, and its events or dead letter."""
        offset, decided = joined.offset, self._decided
        if offset < decided.outcomes:
            self.deleted["outcomes"] += 1
            return
        if joined.command is not None:
            self._missing(offset, "commands", offset, "has no outcome")
        traces: tuple[tuple[LogName, EventsTrace | DeadLetterTrace | None], ...]
        traces = (("events", joined.events), ("dead-letters", joined.dead_letter))
        for kind, trace in traces:
            if trace is not None and offset >= decided.at_most:
                self._add(kind, trace.at, f"is of command {offset}, which is not decided yet")
            elif trace is not None:
                self._missing(offset, kind, trace.at, f"is of command {offset}, which has no outcome")

    def _check_outcome(self, joined: JoinedCommand, outcome: OutcomeTrace) -> None:
        """Compare an outcome with its command."""
        offset, end = joined.offset, self._decided.at_most
        if offset >= end:
            what = f"is of command {offset}, and the committed offset says that only those below {end} are decided"
            self._add("outcomes", outcome.at, what)
        elif joined.command is not None:
            for problem in check_outcome(self._scope, joined.command, outcome):
                self._add("outcomes", outcome.at, problem)
        elif offset < self._decided.commands:
            self.deleted["commands"] += 1
        else:
            self._add("outcomes", outcome.at, f"is of command {offset}, which does not exist")

    def _check_events(self, offset: int, outcome: OutcomeTrace, events: EventsTrace) -> None:
        """Compare events with the outcome of their command: cause, number, last version and timestamp."""
        at = events.at
        if outcome.status != "accepted":
            self._add("events", at, f"is of command {offset}, whose outcome is {outcome.result}")
            return
        if events.count != outcome.events:
            what = f"is one of {events.count} events of command {offset}, whose outcome says {outcome.events}"
            self._add("events", at, what)
        elif events.last != outcome.version:
            what = f"leads {events.subject!r} to version {events.last}, its command's outcome to {outcome.version}"
            self._add("events", at, what)
        found = (events.subject, events.cause, events.correlation)
        wanted = (outcome.subject, outcome.cause, outcome.correlation)
        if found != wanted:
            what = f"has subject, causationid and correlationid {found}, its command's outcome {wanted}"
            self._add("events", at, what)
        if differ(events.propagated, outcome.propagated):
            self._add("events", at, f"does not have the {PROPAGATED_NAMES} of its command's outcome")
        if events.timestamp != outcome.timestamp:
            self._add("events", at, "does not have the timestamp of its command's outcome")

    def _check_dead_letter(
        self, joined: JoinedCommand, outcome: OutcomeTrace, dead_letter: DeadLetterTrace | None
    ) -> None:
        """Compare a dead letter with its outcome and its command. Only failed commands have a dead letter."""
        offset, failed = joined.offset, outcome.status == "failed"
        if dead_letter is None:
            if failed and offset < self._decided.dead_letters:
                self.deleted["dead-letters"] += 1
            elif failed:
                what = f"is of command {offset}, which has no dead letter"
                self._missing(offset, "outcomes", outcome.at, what)
            return
        at = dead_letter.at
        if not failed:
            self._add("dead-letters", at, f"is of command {offset}, whose outcome is {outcome.result}")
            return
        found = (dead_letter.reason, dead_letter.key, dead_letter.timestamp)
        if found != (outcome.reason, outcome.key, outcome.timestamp):
            self._add("dead-letters", at, "has another reason, key or timestamp than its command's outcome")
        if differ(dead_letter.message, outcome.message):
            self._add("dead-letters", at, "has another message than its command's outcome")
        if given_up(outcome):
            if (dead_letter.value, dead_letter.headers) != checksums(None, None):
                self._add(
                    "dead-letters", at, f"keeps bytes or headers of command {offset}, which was given up"
                )
        elif joined.command is not None:
            kept = checksums(joined.command.value, joined.command.headers)
            if (dead_letter.value, dead_letter.headers) != kept:
                self._add("dead-letters", at, f"does not have the bytes and headers of command {offset}")
