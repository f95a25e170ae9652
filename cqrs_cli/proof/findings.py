"""The violations that verification finds, with their positions, and the rule for missing records.

A missing record is a violation if its command is certainly decided, unless an operator accepted the loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from cqrs_cli.proof.positions import ProvedPlace, read_place

LogName = Literal["commands", "events", "outcomes", "dead-letters", "deferred"]

#: The number of violations per partition that are listed. All violations are counted; the limit bounds memory.
MAX_NAMED = 100


#: A number of commands, and the sum of their hashes.
CommandTally = tuple[int, int]


class Violation(NamedTuple):
    """A violation by the record at `offset` of a topic. `what` is the predicate of the message `topic partition offset
    what`: `Violation("outcomes", 17, "is NOT_FOUND without an expected version")`.
    """

    kind: LogName
    offset: int
    what: str


class Report(NamedTuple):
    """The numbers of records read, and their violations: `violations` has the first `MAX_NAMED` of `violation_count`.

    `deleted`: commands, outcomes and dead letters that existed and were deleted by retention. `accepted`: missing
    records whose loss an operator accepted. `given_up`: commands that failed without being read, e.g. by `run --fail`.
    `moved`: tallies of commands forwarded to other partitions. `forwarded`: tallies of commands received from other
    partitions. The caller compares the two.
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
    """The violations of one partition. `accepted` counts missing records whose loss an operator accepted."""

    def __init__(self, before: Report | None = None) -> None:
        """`before`: the report of an earlier verification, to which new violations are added."""
        before = before or Report()
        self.named = list(before.violations)
        self.count = before.violation_count
        self.accepted = before.accepted

    def add(self, kind: LogName, offset: int, what: str) -> None:
        """Count a violation, and list it if the list has fewer than `MAX_NAMED`."""
        self.count += 1
        if len(self.named) < MAX_NAMED:
            self.named.append(Violation(kind, offset, what))


@dataclass(frozen=True, slots=True)
class DecidedRange:
    """The decided commands, by the offsets committed before and after the logs were read, and the start of each log.

    Commands before `surely` must have all their records; commands from `at_most` on must have none. An owner was
    deciding the commands in between.
    """

    surely: int
    at_most: int
    commands: int = 0  # the first command that is not deleted yet
    outcomes: int = 0  # the first command whose outcome is not deleted yet
    dead_letters: int = 0  # the first command whose dead letter would not be deleted yet
    began_again: bool = False  # the commands topic was recreated after an accepted loss
    parents: Mapping[int, int] = field(default_factory=dict)  # by parent partition: as `outcomes`

    def is_deleted(self, place: ProvedPlace) -> bool:
        """True if the outcome of a command may have existed, and was deleted."""
        if isinstance(place, int):
            return place < self.outcomes
        partition, offset = read_place(place) or (-1, 0)
        return offset < self.parents.get(partition, 0)


class Losses:
    """Reports missing records as violations, unless an owner was deciding, or an operator accepted the loss."""

    def __init__(self, decided: DecidedRange, accepted: int | None, findings: Findings) -> None:
        self._decided = decided
        self._accepted = accepted
        self._findings = findings

    def missing(self, command: int, kind: LogName, at: int, what: str) -> None:
        """Report a missing record of a command; `kind` and `at`: topic and offset of the record that shows the gap."""
        if command >= self._decided.surely:
            return
        if self._accepted is not None and command < self._accepted:
            self._findings.accepted += 1
        else:
            self._findings.add(kind, at, what)

    def follow(self, command: int, before: int | None) -> bool:
        """True if `command` is an aggregate's first command after an accepted loss. Then its version need not follow
        the known version, to which the command `before` led.
        """
        loss = self._accepted
        if loss is None or command < loss or not self._findings.accepted:
            return False
        return before is None or before < loss
