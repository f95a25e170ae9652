"""The proof of one partition: records in, violations out. It reads no topic and no clock.

First come the logs that owners write, each from its start to its end; then the commands, joined with their traces.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.dead_letters import DeadLetters
from cqrs_cli.proof.deferrals import DeferredLog
from cqrs_cli.proof.events import Events
from cqrs_cli.proof.findings import DecidedRange, Findings, LogName, Violation
from cqrs_cli.proof.join import find_events, join
from cqrs_cli.proof.memory.dedup_index import FLUSH_EVERY, DedupIndex
from cqrs_cli.proof.outcomes import Outcomes
from cqrs_cli.proof.rules import Rules
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import LIMIT, Index, Traces
from cqrs_cli.state.store import Store


class Scratch(NamedTuple):
    """Empty stores for the data of a proof that may be larger than memory: traces by topic, versions and ids."""

    outcomes: Index
    events: Index
    dead_letters: Index
    store: Store
    flush_every: int = FLUSH_EVERY  # entries of the store that make one write


class Report(NamedTuple):
    """The records that were read, and what is wrong with them: `violations` names the first of `violation_count`.

    `deleted`: commands, outcomes and dead letters that are known to have been there, and were deleted by retention.
    `accepted`: missing records whose loss an operator accepted. `given_up`: commands that failed without being read, as
    `run --fail` makes them.
    """

    commands: int = 0
    outcomes: int = 0
    events: int = 0
    dead_letters: int = 0
    aggregates: int = 0
    deleted: Mapping[LogName, int] = {}
    accepted: int = 0
    given_up: int = 0
    violations: tuple[Violation, ...] = ()
    violation_count: int = 0


class Proof:
    """The proof of a partition: call `outcomes.read`, `events.read`, `dead_letters.read`, then `conclude`."""

    def __init__(self, scope: Scope, scratch: Scratch) -> None:
        self.findings = Findings()
        self._scope = scope
        self._scratch = scratch
        self._outcome_traces = Traces("outcomes", scope, scratch.outcomes, self.findings)
        event_traces = Traces("events", scope, scratch.events, self.findings)
        dead_letter_traces = Traces("dead-letters", scope, scratch.dead_letters, self.findings)
        self.outcomes = Outcomes(scope, self._outcome_traces, self.findings)
        self.events = Events(scope, event_traces, self._outcome_traces, self.findings)
        self.dead_letters = DeadLetters(scope, dead_letter_traces, self._outcome_traces, self.findings)
        self.deferred = DeferredLog(scope, self.findings)
        self._rules: Rules | None = None
        if scope.starts["events"]:
            self.findings.add(
                "events", scope.starts["events"], "is where the log starts: events were deleted"
            )

    def decided(self, before: int | None, after: int | None, commands: int) -> DecidedRange:
        """The end of what is decided here, from the offsets committed `before` and `after` the logs were read.

        Without a committed offset, because it expired or nothing was decided yet, the last outcome counts.
        `commands`: where their log starts.
        """
        self.events.end()
        starts, scratch = self._scope.starts, self._scratch
        surely = self._outcome_traces.last + 1 if before is None else before
        at_most = LIMIT if after is None else after
        outcomes = _first(scratch.outcomes, surely) if starts["outcomes"] else 0
        dead_letters = _first(scratch.dead_letters, surely) if starts["dead-letters"] else 0
        return DecidedRange(
            surely, max(surely, at_most), commands, outcomes, dead_letters, self._outcome_traces.began_again
        )

    def until(self, decided: DecidedRange) -> int:
        """The offset up to which commands must be read."""
        last = self._scratch.outcomes.last()
        return (
            decided.at_most
            if decided.at_most < LIMIT
            else max(decided.surely, 0 if last is None else last + 1)
        )

    def conclude(self, commands: Iterator[Record], decided: DecidedRange) -> None:
        """Check every command up to `until` with its traces."""
        scratch = self._scratch
        with DedupIndex(scratch.store, scratch.flush_every) as dedup:
            self._rules = Rules(self._scope, decided, scratch.outcomes, dedup, self.findings)
            for joined in join(commands, scratch.outcomes, scratch.events, scratch.dead_letters):
                self._rules.check(joined)

    def conclude_deferred(self, commands: Iterable[Record]) -> None:
        """Compare the deferred topic with the outcomes, if nobody was at work. `commands`: those not decided yet."""
        if self._rules is not None:
            self._rules.deferrals.conclude(self.deferred.entries, commands)

    def event_at(self, command: int, index: int) -> int | None:
        """The offset of an event of a command, or nearly: only the first one's offset is kept."""
        events = find_events(self._scratch.events, command)
        return None if events is None else events.at + index

    def report(self) -> Report:
        """The result."""
        rules, findings = self._rules, self.findings
        return Report(
            rules.commands if rules else 0,
            self.outcomes.count,
            self.events.count,
            self.dead_letters.count,
            rules.aggregates if rules else 0,
            rules.deleted if rules else {},
            findings.accepted,
            rules.given_up if rules else 0,
            tuple(sorted(findings.named)),
            findings.count,
        )


def _first(index: Index, otherwise: int) -> int:
    first = index.first()
    return otherwise if first is None else first
