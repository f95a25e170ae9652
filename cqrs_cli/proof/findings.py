"""The violations that verification finds, with their positions, and the rule for missing records.

A missing record is a violation if its command is certainly decided, unless an operator accepted the loss.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from cqrs_cli.proof.positions import CommandPosition, parse_parent_position

LogName = Literal["commands", "events", "outcomes", "dead-letters", "deferred"]

#: A topic that may have violations. The keys topic is no `LogName`, because its records do not belong to commands.
ViolationLog = LogName | Literal["keys"]

#: The number of violations per partition that are listed. All violations are counted; the limit bounds memory.
MAX_LISTED = 100


#: (number of commands, sum of their hashes).
CommandTally = tuple[int, int]


class Violation(NamedTuple):
    """A violation by the record at `offset` of a topic.

    `problem` completes the message `outcomes <partition> <offset> …`, as in
    `Violation("outcomes", 17, "is NOT_FOUND without an expected version")`.
    """

    log: ViolationLog
    offset: int
    problem: str


class Report(NamedTuple):
    """The numbers of records that were read, and their violations."""

    commands: int = 0
    outcomes: int = 0
    events: int = 0
    dead_letters: int = 0
    aggregates: int = 0
    deleted: Mapping[LogName, int] = {}  # log → number of records that retention has deleted
    accepted_losses: int = 0  # number of missing records whose loss an operator accepted
    given_up: int = 0  # number of commands that failed without being read, such as by `run --fail`
    violations: tuple[Violation, ...] = ()  # the first `MAX_LISTED` violations
    violation_count: int = 0  # number of all violations
    #: Other partition → tally of the commands forwarded to it or received from it. The caller compares the tallies.
    forwarded_to: Mapping[int, CommandTally] = {}
    received_from: Mapping[int, CommandTally] = {}


class Findings:
    """The violations of one partition. `accepted_losses`: number of missing records whose loss an operator accepted."""

    def __init__(self, earlier_report: Report | None = None) -> None:
        """`earlier_report`: the report of an earlier verification, to which new violations are added."""
        earlier_report = earlier_report or Report()
        self.listed = list(earlier_report.violations)
        self.count = earlier_report.violation_count
        self.accepted_losses = earlier_report.accepted_losses

    def add_violation(self, log: ViolationLog, offset: int, problem: str) -> None:
        """Count a violation, and list it if the list has fewer than `MAX_LISTED`."""
        self.count += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(Violation(log, offset, problem))

    def add_all(self, others: "Findings") -> None:
        """Add the violations of other findings."""
        self.count += others.count
        self.listed += others.listed[: max(0, MAX_LISTED - len(self.listed))]


@dataclass(frozen=True, slots=True)
class DecidedRange:
    """The bounds of the decided commands. An owner may decide while the logs are read, so the committed offset is read
    before and after the logs.

    Commands before `decided_lower` must have all their records; commands from `decided_upper` on must have none. An
    owner was deciding the commands in between. Earlier records may be deleted: the other offsets are the first commands
    whose records must exist.
    """

    decided_lower: int  # committed offset before the logs were read
    decided_upper: int  # committed offset after the logs were read
    first_command: int = 0  # the first command that is not deleted yet
    first_outcome: int = 0  # the first command whose outcome is not deleted yet
    first_dead_letter: int = 0  # the first command whose dead letter, if it has one, is not deleted yet
    topic_recreated: bool = False  # True if the commands topic was recreated after an accepted loss
    parents: Mapping[int, int] = field(default_factory=dict)  # parent partition → its `first_outcome`

    def is_deleted(self, position: CommandPosition) -> bool:
        """True if the outcome of a command may have been deleted."""
        if isinstance(position, int):
            return position < self.first_outcome
        partition, offset = parse_parent_position(position) or (-1, 0)
        return offset < self.parents.get(partition, 0)


class Losses:
    """Reports missing records as violations, unless an owner was deciding, or an operator accepted the loss."""

    def __init__(self, decided_range: DecidedRange, accepted_until: int | None, findings: Findings) -> None:
        self._decided_range = decided_range
        self._accepted_until = accepted_until
        self._findings = findings

    def report_missing(self, command_offset: int, log: LogName, offset: int, problem: str) -> None:
        """Report a missing record of a command. `log`, `offset`: the record that shows the gap, for the message."""
        if command_offset >= self._decided_range.decided_lower:
            return
        if self._accepted_until is not None and command_offset < self._accepted_until:
            self._findings.accepted_losses += 1
        else:
            self._findings.add_violation(log, offset, problem)

    def may_skip_versions(self, command_offset: int, known_command: int | None) -> bool:
        """True if the command at `command_offset` is its aggregate's first command after an accepted loss: then
        versions may be missing. `known_command`: the previous command of the aggregate; None if there is no such
        command.
        """
        accepted_until = self._accepted_until
        if accepted_until is None or command_offset < accepted_until or not self._findings.accepted_losses:
            return False
        return known_command is None or known_command < accepted_until
