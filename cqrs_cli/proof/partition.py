"""The verification of one partition: records in, violations out. It reads no topic and no clock.

The caller first passes the logs that owners write: they are checked, and become index entries. Then it passes the
commands, which are joined with the index entries. A verification may continue from a checkpoint
(`proof.verification_checkpoint`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.dead_letters import DeadLetters
from cqrs_cli.proof.dedup_index import FLUSH_EVERY, DedupIndex
from cqrs_cli.proof.deferred_log import DeferredLog
from cqrs_cli.proof.events import Events
from cqrs_cli.proof.findings import MAX_LISTED, DecidedRange, Findings, LogName, Report, Violation
from cqrs_cli.proof.index_entries import OFFSET_LIMIT, EventsEntry, Index, IndexWriter
from cqrs_cli.proof.join import find_events, join
from cqrs_cli.proof.key_topic import KeyVerification
from cqrs_cli.proof.outcomes import Outcomes
from cqrs_cli.proof.parent_results import FamilyIndex, ParentResults
from cqrs_cli.proof.rules import Rules
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.split_clock import SplitChecker
from cqrs_cli.proof.verification_checkpoint import (
    BoundedIndex,
    CheckpointUnusableError,
    VerificationCheckpoint,
    check_continuation,
)
from cqrs_cli.state.store import Store


class Scratch(NamedTuple):
    """The stores of a verification, whose data may be larger than memory."""

    outcomes: Index
    events: Index
    dead_letters: Index
    store: Store  # versions and command ids
    flush_every: int = FLUSH_EVERY  # number of entries per write to `store`

    def bounded(self, floor: int) -> "Scratch":
        """Return the stores for a verification that continues at the command offset `floor`."""
        outcomes, events, dead_letters = (
            BoundedIndex(index, floor) for index in (self.outcomes, self.events, self.dead_letters)
        )
        return self._replace(outcomes=outcomes, events=events, dead_letters=dead_letters)


class _UncertainEvents(NamedTuple):
    """The events of the last command in the log, if this command is not certainly decided: more events may follow.

    The checkpoint has these events, and the state of the `IndexWriter` before them, so that the next verification adds
    them again.
    """

    open_events: tuple[int, EventsEntry]  # (offset of the command, its events)
    last_command: int  # `IndexWriter.last_command` before these events
    topic_recreated: bool  # `IndexWriter.topic_recreated` before these events


class PartitionVerification:
    """The verification of a partition. Call `outcomes.read`, `events.read`, `dead_letters.read` and `deferred.read`,
    then `find_decided_range`, then `check_commands`.

    `earlier_checkpoint`: the checkpoint of an earlier verification, whose index entries and versions are in `scratch`.
    The caller then reads the logs from `earlier_checkpoint.read_until` on, and the commands from its `verified_until`
    on. With a checkpoint, each call may raise `CheckpointUnusableError`.
    """

    def __init__(
        self,
        scope: Scope,
        scratch: Scratch,
        earlier_checkpoint: VerificationCheckpoint | None = None,
        inherited: ParentResults | None = None,
    ) -> None:
        inherited = inherited or ParentResults()
        # These lookups also find outcomes before the checkpoint, so `scratch` is bounded only afterwards.
        known_outcomes = FamilyIndex(scratch.outcomes, inherited.parents)
        if earlier_checkpoint is not None:
            check_continuation(earlier_checkpoint, scope.starts, scope.loss)
            scratch = scratch.bounded(earlier_checkpoint.verified_until)
        self.findings = Findings(None if earlier_checkpoint is None else earlier_checkpoint.report)
        #: Violations that the checkpoint does not store, because the next verification finds them again.
        self.unstored_findings = Findings()
        self.new_checkpoint: VerificationCheckpoint | None = None
        self._scope, self._scratch, self._earlier_checkpoint, self._inherited = (
            scope,
            scratch,
            earlier_checkpoint,
            inherited,
        )
        self._outcome_writer = IndexWriter(
            "outcomes", scope, scratch.outcomes, self.findings, earlier_checkpoint
        )
        self._event_writer = IndexWriter("events", scope, scratch.events, self.findings, earlier_checkpoint)
        self._dead_letter_writer = IndexWriter(
            "dead-letters", scope, scratch.dead_letters, self.findings, earlier_checkpoint
        )
        start = (
            scope.starts["outcomes"]
            if earlier_checkpoint is None
            else earlier_checkpoint.read_until["outcomes"]
        )
        clock = SplitChecker(scope, self.findings, start, inherited.clock)
        self.outcomes = Outcomes(scope, self._outcome_writer, self.findings, clock)
        self.events = Events(scope, self._event_writer, self._outcome_writer, self.findings)
        self.dead_letters = DeadLetters(scope, self._dead_letter_writer, self._outcome_writer, self.findings)
        checked_until = 0 if earlier_checkpoint is None else earlier_checkpoint.read_until.get("deferred", 0)
        self.deferred = DeferredLog(
            scope, known_outcomes, self.findings, self.unstored_findings, checked_until
        )
        self.keys = KeyVerification(
            scope, scratch.store, scratch.events, self.deferred, self.unstored_findings
        )
        self._rules: Rules | None = None
        self._uncertain_events: _UncertainEvents | None = None
        if earlier_checkpoint is not None:
            self.outcomes.count, self.events.count = (
                earlier_checkpoint.report.outcomes,
                earlier_checkpoint.report.events,
            )
            self.dead_letters.count = earlier_checkpoint.report.dead_letters
            self.events.continue_with(earlier_checkpoint.open_events)
        if scope.starts["events"]:
            problem = "is where the log starts: events were deleted"
            self.unstored_findings.add_violation("events", scope.starts["events"], problem)
        for log, offset, problem in _splits_beyond_logs(scope):
            self.unstored_findings.add_violation(log, offset, problem)

    def find_decided_range(
        self, committed_before: int | None, committed_after: int | None, commands_start: int
    ) -> DecidedRange:
        """Return the range of decided commands. Call it after all logs were read.

        `committed_before`, `committed_after`: the committed offset before and after the logs were read; None if it has
        expired, or if no command was decided yet. Then the last outcome counts instead. `commands_start`: the start
        offset of the commands topic.
        """
        decided_lower = (
            self._outcome_writer.last_command + 1 if committed_before is None else committed_before
        )
        decided_upper = OFFSET_LIMIT if committed_after is None else committed_after
        if self._earlier_checkpoint is not None and decided_lower < self._earlier_checkpoint.verified_until:
            if committed_before is not None:
                raise CheckpointUnusableError(f"the committed offset went back to {committed_before}")
            decided_lower = self._earlier_checkpoint.verified_until
        self.keys.decided_lower = decided_lower
        open_events, event_writer = self.events.open_events, self._event_writer
        if open_events is not None and open_events[0] >= decided_lower:
            self._uncertain_events = _UncertainEvents(
                open_events, event_writer.last_command, event_writer.topic_recreated
            )
        self.outcomes.finish_outcomes()
        self.events.finish_events(self.findings if self._uncertain_events is None else self.unstored_findings)
        outcomes = self._first_known(self._outcome_writer, decided_lower)
        dead_letters = self._first_known(self._dead_letter_writer, decided_lower)
        if isinstance(self._scratch.outcomes, BoundedIndex):
            self._scratch.outcomes.first_known = outcomes
        return DecidedRange(
            decided_lower,
            max(decided_lower, decided_upper),
            commands_start,
            outcomes,
            dead_letters,
            self._outcome_writer.topic_recreated,
            {partition: parent.first_known for partition, parent in self._inherited.parents.items()},
        )

    def _first_known(self, writer: IndexWriter, decided_lower: int) -> int:
        """Return the first command whose record in the writer's log was not deleted before a verification read it."""
        start, earlier_checkpoint = self._scope.starts[writer.log], self._earlier_checkpoint
        if earlier_checkpoint is None:
            first = writer.index.first_command() if start else 0
        elif start <= earlier_checkpoint.read_until[writer.log]:
            first = earlier_checkpoint.first_known[writer.log]
        else:
            first = writer.first_command
        return decided_lower if first is None else first

    def commands_end(self, decided_range: DecidedRange) -> int:
        """Return the offset up to which the caller must read the commands."""
        last_command = self._scratch.outcomes.last_command()
        return (
            decided_range.decided_upper
            if decided_range.decided_upper < OFFSET_LIMIT
            else max(decided_range.decided_lower, 0 if last_command is None else last_command + 1)
        )

    def check_commands(
        self,
        commands: Iterator[Record],
        decided_range: DecidedRange,
        ends: Mapping[LogName, int] | None = None,
    ) -> None:
        """Check each command with its index entries.

        `ends`: the end offset of each log. If given, `new_checkpoint` is set, from which the next verification
        continues at `decided_range.decided_lower`. The commands that an owner was deciding are left to the next
        verification.
        """
        scratch = self._scratch
        scope, earlier_checkpoint, inherited = self._scope, self._earlier_checkpoint, self._inherited
        parent = scope.partition if scope.for_child else None
        with DedupIndex(scratch.store, scratch.flush_every, parent) as dedup:
            if earlier_checkpoint is None:
                dedup.advance_clock(inherited.clock)
            known_outcomes = FamilyIndex(scratch.outcomes, inherited.parents)
            rules = Rules(
                scope,
                decided_range,
                known_outcomes,
                dedup,
                self.findings,
                earlier_checkpoint,
                inherited.open_deferrals,
                inherited.events_complete,
            )
            self._rules, first_to_check = rules, 0
            joined = join(commands, scratch.outcomes, scratch.events, scratch.dead_letters)
            if ends is not None:
                joined = rules.check_until(decided_range.decided_lower, joined)
                dedup.freeze()
                self.new_checkpoint = self._make_checkpoint(decided_range, ends, rules, dedup.clock)
                first_to_check = (
                    decided_range.decided_upper if decided_range.decided_upper < OFFSET_LIMIT else 0
                )
            for joined_command in joined:
                if joined_command.offset >= first_to_check:
                    rules.check_command(joined_command)
            if scope.personal is not None and ends is None:
                dedup.flush()  # `check_key_topic` reads the store next

    def _make_checkpoint(
        self, decided_range: DecidedRange, ends: Mapping[LogName, int], rules: Rules, clock: int
    ) -> VerificationCheckpoint:
        scope, uncertain = self._scope, self._uncertain_events
        writers = (self._outcome_writer, self._event_writer, self._dead_letter_writer)
        last_commands = {writer.log: writer.last_command for writer in writers}
        topic_recreated = {writer.log: writer.topic_recreated for writer in writers}
        if uncertain is not None:
            last_commands["events"], topic_recreated["events"] = (
                uncertain.last_command,
                uncertain.topic_recreated,
            )
        ends = dict(ends)
        if self.deferred.first_unchecked is not None:
            ends["deferred"] = self.deferred.first_unchecked
        return VerificationCheckpoint(
            decided_range.decided_lower,
            ends,
            self._make_report(self.findings),
            last_commands,
            topic_recreated,
            None if uncertain is None else uncertain.open_events,
            dict(rules.deferrals.open_deferrals),
            {"outcomes": decided_range.first_outcome, "dead-letters": decided_range.first_dead_letter},
            rules.events_complete,
            scope.loss,
            clock - max(scope.shortest_window, scope.longest_window or 0),
        )

    def check_deferred_topic(self, commands: Iterable[Record]) -> None:
        """Compare the deferred topic with the outcomes. `commands`: the commands that are not decided yet.

        Call it only if no owner decided while the logs were read. A child partition that is not activated is skipped,
        because it may still be importing its deferred commands.
        """
        is_activated = self._scope.key_history is None or self._scope.key_history.is_activated
        if self._rules is not None and is_activated:
            self._rules.deferrals.compare_entries(self.deferred.entries, commands)

    def find_event_offset(self, command_offset: int, index: int, subject: str) -> int | None:
        """Return the offset of a command's event, or None if this partition has no such event. The offset is computed
        from the offset of the command's first event, so it is approximate.
        """
        events = find_events(self._scratch.events, command_offset)
        return None if events is None or events.subject != subject else events.offset + index

    def report(self) -> Report:
        """Return the report of all findings."""
        return self._make_report(self.findings, self.unstored_findings)

    def _make_report(self, *all_findings: Findings) -> Report:
        rules = self._rules
        listed = [violation for findings in all_findings for violation in findings.listed]
        return Report(
            rules.command_count if rules else 0,
            self.outcomes.count,
            self.events.count,
            self.dead_letters.count,
            rules.aggregate_count if rules else 0,
            dict(rules.deleted) if rules else {},
            self.findings.accepted_losses,
            rules.given_up if rules else 0,
            tuple(sorted(listed[:MAX_LISTED])),
            sum(findings.count for findings in all_findings),
            *(({}, {}) if rules is None or rules.forwarded is None else rules.forwarded.tallies()),
        )


def _splits_beyond_logs(scope: Scope) -> Iterator[Violation]:
    """Yield a violation for each split whose offset is after the end of a log."""
    logs: tuple[LogName, ...] = ("commands", "events", "outcomes", "deferred")
    for split in () if scope.key_history is None else scope.key_history.splits:
        for log in logs:
            offset, end = getattr(split, log), scope.ends.get(log, OFFSET_LIMIT)
            if offset > end:
                problem = f"is where the split from {split.before} to {split.after} partitions is"
                yield Violation(log, offset, f"{problem}, but the log ends at {end}")
