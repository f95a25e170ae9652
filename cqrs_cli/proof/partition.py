"""The proof of one partition: its logs in, violations out. Reads no topic and asks no clock.

First the logs that owners write, each from its start to its end; then the commands, beside what was kept of those.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.dead_letters import DeadLetters
from cqrs_cli.proof.decided import Decided
from cqrs_cli.proof.dedup_index import DedupIndex
from cqrs_cli.proof.events import Events
from cqrs_cli.proof.findings import Findings, Kind, Violation
from cqrs_cli.proof.join import rows, written_by
from cqrs_cli.proof.outcomes import Outcomes
from cqrs_cli.proof.rules import Rules
from cqrs_cli.proof.scope import Scope
from cqrs_cli.proof.traces import LIMIT, Index, Traces
from cqrs_cli.state.store import Store


class Scratch(NamedTuple):
    """Where a proof keeps what may be larger than memory, all of it empty: traces by topic, versions and ids."""

    outcomes: Index
    events: Index
    letters: Index
    store: Store


class Report(NamedTuple):
    """What was looked at, and what is wrong with it: `violations` names the first of `violation_count`.

    `deleted`: commands, outcomes and dead letters that are known to have been there, and were deleted by retention.
    `accepted`: what is missing, and an operator has accepted as lost.
    """

    commands: int = 0
    outcomes: int = 0
    events: int = 0
    dead_letters: int = 0
    aggregates: int = 0
    deleted: Mapping[Kind, int] = {}
    accepted: int = 0
    violations: tuple[Violation, ...] = ()
    violation_count: int = 0


class Proof:
    """One partition on its way: `outcomes.read`, `events.read`, `letters.read`, in this order, then `conclude`."""

    def __init__(self, scope: Scope, scratch: Scratch) -> None:
        self.findings = Findings()
        self._scope = scope
        self._scratch = scratch
        self._told = Traces("outcomes", scope, scratch.outcomes, self.findings)
        written = Traces("events", scope, scratch.events, self.findings)
        buried = Traces("dead-letters", scope, scratch.letters, self.findings)
        self.outcomes = Outcomes(scope, self._told, self.findings)
        self.events = Events(scope, written, self._told, self.findings)
        self.letters = DeadLetters(scope, buried, self._told, self.findings)
        self._rules: Rules | None = None
        if scope.starts["events"]:
            self.findings.add(
                "events", scope.starts["events"], "is where the log starts: events were deleted"
            )

    def decided(self, before: int | None, after: int | None, commands: int) -> Decided:
        """How far it is decided, from the offsets committed `before` and `after` the logs were read; where none is,
        because it expired or nothing was decided yet, from the last outcome. `commands`: where their log starts.
        """
        self.events.end()
        starts, scratch = self._scope.starts, self._scratch
        surely = self._told.last + 1 if before is None else before
        at_most = LIMIT if after is None else after
        outcomes = _first(scratch.outcomes, surely) if starts["outcomes"] else 0
        letters = _first(scratch.letters, surely) if starts["dead-letters"] else 0
        return Decided(surely, max(surely, at_most), commands, outcomes, letters, self._told.began_again)

    def until(self, decided: Decided) -> int:
        """Up to where commands have to be read."""
        last = self._scratch.outcomes.last()
        return (
            decided.at_most
            if decided.at_most < LIMIT
            else max(decided.surely, 0 if last is None else last + 1)
        )

    def conclude(self, commands: Iterator[Record], decided: Decided) -> None:
        """Go through the commands, up to `until`, with what came of each."""
        scratch = self._scratch
        with DedupIndex(scratch.store) as recall:
            self._rules = Rules(self._scope, decided, scratch.outcomes, recall, self.findings)
            for row in rows(commands, scratch.outcomes, scratch.events, scratch.letters):
                self._rules.judge(row)

    def event_at(self, command: int, index: int) -> int | None:
        """Where in the log an event of a command lies, or nearly: the first one's offset is known."""
        written = written_by(self._scratch.events, command)
        return None if written is None else written.at + index

    def report(self) -> Report:
        """What came of it."""
        rules, findings = self._rules, self.findings
        return Report(
            rules.commands if rules else 0,
            self.outcomes.count,
            self.events.count,
            self.letters.count,
            rules.aggregates if rules else 0,
            rules.deleted if rules else {},
            findings.accepted,
            tuple(sorted(findings.named)),
            findings.count,
        )


def _first(index: Index, otherwise: int) -> int:
    first = index.first()
    return otherwise if first is None else first
