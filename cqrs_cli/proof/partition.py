"""The verification of one partition: records in, violations out. It reads no topic and no clock.

The caller passes first the logs that owners write, each from start to end, then the commands, which are joined with the
index entries of the logs. A verification may continue from a checkpoint (`proof.carried`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.dead_letters import DeadLetters
from cqrs_cli.proof.dedup_index import FLUSH_EVERY, DedupIndex
from cqrs_cli.proof.deferred_log import DeferredLog
from cqrs_cli.proof.events import Events
from cqrs_cli.proof.findings import MAX_NAMED, DecidedRange, Findings, LogName, Report, Violation
from cqrs_cli.proof.join import find_events, join
from cqrs_cli.proof.key_topic import KeyProof
from cqrs_cli.proof.outcomes import Outcomes
from cqrs_cli.proof.parent_results import FamilyIndex, ParentResults
from cqrs_cli.proof.rules import Rules
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.split_clock import SplitClock
from cqrs_cli.proof.traces import LIMIT, EventsTrace, Index, Traces
from cqrs_cli.proof.verification_checkpoint import (
    BoundedIndex,
    CheckpointUnusableError,
    VerificationCheckpoint,
    check_beginning,
)
from cqrs_cli.state.store import Store


class Scratch(NamedTuple):
    """The stores of a verification, whose data may be larger than memory: index entries by topic, versions and ids."""

    outcomes: Index
    events: Index
    dead_letters: Index
    store: Store
    flush_every: int = FLUSH_EVERY  # store entries per write

    def bounded(self, floor: int) -> "Scratch":
        """Return the stores for a verification that continues at command `floor`."""
        outcomes, events, dead_letters = (
            BoundedIndex(index, floor) for index in (self.outcomes, self.events, self.dead_letters)
        )
        return self._replace(outcomes=outcomes, events=events, dead_letters=dead_letters)


class _UncertainEvents(NamedTuple):
    """The last events read, of a command that is not certainly decided, and the state of the index before them."""

    open: tuple[int, EventsTrace]
    last: int
    began_again: bool


class Proof:
    """The verification of a partition: call `outcomes.read`, `events.read`, `dead_letters.read`, then `conclude`.

    `earlier`: the checkpoint of an earlier verification, whose index entries and versions are in `scratch`. The caller
    then reads the logs from `earlier.read` on, and the commands from `earlier.commands` on. Each call may raise
    `CheckpointUnusableError`.
    """

    def __init__(
        self,
        scope: Scope,
        scratch: Scratch,
        earlier: VerificationCheckpoint | None = None,
        inherited: ParentResults | None = None,
    ) -> None:
        parents = {} if inherited is None else inherited.parents
        kept = FamilyIndex(scratch.outcomes, parents)  # also of commands before the checkpoint, if stored
        if earlier is not None:
            check_beginning(earlier, scope.starts, scope.loss)
            scratch = scratch.bounded(earlier.commands)
        self.findings = Findings(None if earlier is None else earlier.report)
        self.passing = Findings()  # not in the checkpoint: found again next time
        self.carried: VerificationCheckpoint | None = None
        self._scope, self._scratch, self._earlier, self._inherited = scope, scratch, earlier, inherited
        self._outcome_traces = Traces("outcomes", scope, scratch.outcomes, self.findings, earlier)
        self._event_traces = Traces("events", scope, scratch.events, self.findings, earlier)
        self._letter_traces = Traces("dead-letters", scope, scratch.dead_letters, self.findings, earlier)
        start = scope.starts["outcomes"] if earlier is None else earlier.read["outcomes"]
        clock = SplitClock(scope, self.findings, start, 0 if inherited is None else inherited.clock)
        self.outcomes = Outcomes(scope, self._outcome_traces, self.findings, clock)
        self.events = Events(scope, self._event_traces, self._outcome_traces, self.findings)
        self.dead_letters = DeadLetters(scope, self._letter_traces, self._outcome_traces, self.findings)
        judged = 0 if earlier is None else earlier.read.get("deferred", 0)
        self.deferred = DeferredLog(scope, kept, self.findings, self.passing, judged)
        self.keys = KeyProof(scope, scratch.store, scratch.events, self.deferred, self.passing)
        self._rules: Rules | None = None
        self._left: _UncertainEvents | None = None  # for the next verification, which adds them again
        if earlier is not None:
            self.outcomes.count, self.events.count = earlier.report.outcomes, earlier.report.events
            self.dead_letters.count = earlier.report.dead_letters
            self.events.go_on(earlier.open_events)
        if scope.starts["events"]:
            what = "is where the log starts: events were deleted"
            self.passing.add("events", scope.starts["events"], what)
        for kind, offset, what in _beyond(scope):
            self.passing.add(kind, offset, what)

    def decided(self, before: int | None, after: int | None, commands: int) -> DecidedRange:
        """Return the decided commands, from the offsets committed `before` and `after` the logs were read.

        Without a committed offset, because it expired or no command was decided yet, the last outcome is used.
        `commands`: the start offset of the commands topic.
        """
        surely = self._outcome_traces.last + 1 if before is None else before
        at_most = LIMIT if after is None else after
        if self._earlier is not None and surely < self._earlier.commands:
            if before is not None:
                raise CheckpointUnusableError(f"the committed offset went back to {before}")
            surely = self._earlier.commands
        self.keys.surely = surely
        open, traces = self.events.open, self._event_traces
        if open is not None and open[0] >= surely:
            self._left = _UncertainEvents(open, traces.last, traces.began_again)
        self.outcomes.end()
        self.events.end(self.findings if self._left is None else self.passing)
        outcomes = self._known_from(self._outcome_traces, surely)
        dead_letters = self._known_from(self._letter_traces, surely)
        if isinstance(self._scratch.outcomes, BoundedIndex):
            self._scratch.outcomes.known_from = outcomes
        parents = {} if self._inherited is None else self._inherited.parents
        return DecidedRange(
            surely,
            max(surely, at_most),
            commands,
            outcomes,
            dead_letters,
            self._outcome_traces.began_again,
            {partition: parent.known_from for partition, parent in parents.items()},
        )

    def _known_from(self, traces: Traces, surely: int) -> int:
        """Return the first command whose record in a log is not deleted, or was read before its deletion."""
        start, earlier = self._scope.starts[traces.kind], self._earlier
        if earlier is None:
            first = traces.index.first() if start else 0
        elif start <= earlier.read[traces.kind]:
            first = earlier.known_from[traces.kind]
        else:
            first = traces.first
        return surely if first is None else first

    def until(self, decided: DecidedRange) -> int:
        """Return the offset up to which commands must be read."""
        last = self._scratch.outcomes.last()
        return (
            decided.at_most
            if decided.at_most < LIMIT
            else max(decided.surely, 0 if last is None else last + 1)
        )

    def conclude(
        self, commands: Iterator[Record], decided: DecidedRange, read: Mapping[LogName, int] | None = None
    ) -> None:
        """Check each command up to `until` with its index entries.

        `read`: the end offset of each log. If given, `carried` and the store become the checkpoint from which the next
        verification continues at `decided.surely`. The next verification checks the commands that an owner is deciding
        now.
        """
        scratch = self._scratch
        scope, earlier, inherited = self._scope, self._earlier, self._inherited
        parent = scope.partition if scope.for_child else None
        with DedupIndex(scratch.store, scratch.flush_every, parent) as dedup:
            rules = Rules(scope, decided, scratch.outcomes, dedup, self.findings, earlier, inherited)
            self._rules, left_out = rules, 0
            joined = join(commands, scratch.outcomes, scratch.events, scratch.dead_letters)
            if read is not None:
                joined = rules.check_below(decided.surely, joined)
                dedup.hold()
                self.carried = self._leave(decided, read, rules, dedup.clock)
                left_out = decided.at_most if decided.at_most < LIMIT else 0
            for each in joined:
                if each.offset >= left_out:
                    rules.check(each)
            if scope.personal is not None and read is None:
                dedup.flush()  # the keys are compared next

    def _leave(
        self, decided: DecidedRange, read: Mapping[LogName, int], rules: Rules, clock: int
    ) -> VerificationCheckpoint:
        scope, left = self._scope, self._left
        traces = (self._outcome_traces, self._event_traces, self._letter_traces)
        last = {one.kind: one.last for one in traces}
        began_again = {one.kind: one.began_again for one in traces}
        if left is not None:
            last["events"], began_again["events"] = left.last, left.began_again
        read = dict(read)
        if self.deferred.judged is not None:
            read["deferred"] = self.deferred.judged
        return VerificationCheckpoint(
            decided.surely,
            read,
            self._report(self.findings),
            last,
            began_again,
            None if left is None else left.open,
            dict(rules.deferrals.open),
            {"outcomes": decided.outcomes, "dead-letters": decided.dead_letters},
            rules.has_begin,
            scope.loss,
            clock - max(scope.window, scope.longest_window or 0),
        )

    def conclude_deferred(self, commands: Iterable[Record]) -> None:
        """Compare the deferred topic with the outcomes. `commands`: the commands that are not decided yet.

        Call it only if no owner was deciding. A pending child partition is skipped, because it imports its deferred
        commands before it is activated.
        """
        has_begun = self._scope.homes is None or self._scope.homes.has_begun
        if self._rules is not None and has_begun:
            self._rules.deferrals.conclude(self.deferred.entries, commands)

    def event_at(self, command: int, index: int, subject: str) -> int | None:
        """Return the approximate offset of a command's event: only the offset of the first event is stored. None if
        this partition has no such event.
        """
        events = find_events(self._scratch.events, command)
        return None if events is None or events.subject != subject else events.at + index

    def report(self) -> Report:
        """Return the report."""
        return self._report(self.findings, self.passing)

    def _report(self, *every: Findings) -> Report:
        rules = self._rules
        named = [violation for findings in every for violation in findings.named]
        return Report(
            rules.commands if rules else 0,
            self.outcomes.count,
            self.events.count,
            self.dead_letters.count,
            rules.aggregates if rules else 0,
            dict(rules.deleted) if rules else {},
            self.findings.accepted,
            rules.given_up if rules else 0,
            tuple(sorted(named[:MAX_NAMED])),
            sum(findings.count for findings in every),
            *(({}, {}) if rules is None or rules.moved is None else rules.moved.tallies()),
        )


def _beyond(scope: Scope) -> Iterator[Violation]:
    """Yield the offsets of the partition's splits that its logs do not reach."""
    kinds: tuple[LogName, ...] = ("commands", "events", "outcomes", "deferred")
    for split in () if scope.homes is None else scope.homes.splits:
        for kind in kinds:
            offset, end = getattr(split, kind), scope.ends.get(kind, LIMIT)
            if offset > end:
                what = f"is where the split from {split.before} to {split.after} partitions is"
                yield Violation(kind, offset, f"{what}, and the log ends at {end}")
