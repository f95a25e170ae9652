"""The violations that a proof finds, each with its place, and the rule for missing records.

A missing record is a violation where its command is surely decided, unless an operator accepted the loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from cqrs_cli.proof.places import ProvedPlace, read_place

LogName = Literal["commands", "events", "outcomes", "dead-letters", "deferred"]

#: Violations of a partition that are named. All are counted; naming only some keeps memory bounded.
MAX_NAMED = 100


#: The number of some commands, and the sum of their hashes.
CommandTally = tuple[int, int]


class Violation(NamedTuple):
    """The fault of the record at `offset` of a topic; reads on from `topic partition offset`."""

    kind: LogName
    offset: int
    what: str


class Report(NamedTuple):
    """The records that were read, and what is wrong with them: `violations` names the first of `violation_count`.

    `deleted`: commands, outcomes and dead letters that are known to have been there, and were deleted by retention.
    `accepted`: missing records whose loss an operator accepted. `given_up`: commands that failed without being read, as
    `run --fail` makes them. `moved`, `forwarded`: the commands that were forwarded to each other partition, and that
    came from each, to be compared.
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
    moved: Mapping[int, CommandTally] = {}
    forwarded: Mapping[int, CommandTally] = {}


class Findings:
    """Violations of one partition. `accepted` counts missing records whose loss an operator accepted."""

    def __init__(self, before: Report | None = None) -> None:
        """`before`: the findings of an earlier proof, to which these are added."""
        before = before or Report()
        self.named = list(before.violations)
        self.count = before.violation_count
        self.accepted = before.accepted

    def add(self, kind: LogName, offset: int, what: str) -> None:
        """Count a violation, and name it unless there are too many."""
        self.count += 1
        if len(self.named) < MAX_NAMED:
            self.named.append(Violation(kind, offset, what))


@dataclass(frozen=True, slots=True)
class DecidedRange:
    """The commands that are decided, as seen before and after the logs were read, and where each log begins.

    Below `surely` everything must be there, from `at_most` on nothing may be; in between an owner was at work.
    """

    surely: int
    at_most: int
    commands: int = 0  # the first command that is not deleted yet
    outcomes: int = 0  # the first command whose outcome is not deleted yet
    dead_letters: int = 0  # the first command whose dead letter would not be deleted yet
    began_again: bool = (
        False  # after an accepted loss the commands topic is a new one; little is known of the old one
    )
    parents: Mapping[int, int] = field(default_factory=dict)  # by partition: the same as `outcomes`

    def is_deleted(self, place: ProvedPlace) -> bool:
        """True if the outcome of a command may have been there, and was deleted."""
        if isinstance(place, int):
            return place < self.outcomes
        partition, offset = read_place(place) or (-1, 0)
        return offset < self.parents.get(partition, 0)


class Losses:
    """Missing records: violations, unless an owner was at work or an operator accepted the loss."""

    def __init__(self, decided: DecidedRange, accepted: int | None, findings: Findings) -> None:
        self._decided = decided
        self._accepted = accepted
        self._findings = findings

    def missing(self, command: int, kind: LogName, at: int, what: str) -> None:
        """Report a missing record of a command; `kind` and `at` name the record that shows it."""
        if command >= self._decided.surely:
            return
        if self._accepted is not None and command < self._accepted:
            self._findings.accepted += 1
        else:
            self._findings.add(kind, at, what)

    def follow(self, command: int, before: int | None) -> bool:
        """True if `command` is an aggregate's first after an accepted loss, so that its version need not follow the
        known one, to which the command `before` led.
        """
        loss = self._accepted
        if loss is None or command < loss or not self._findings.accepted:
            return False
        return before is None or before < loss
