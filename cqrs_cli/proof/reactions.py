"""The rule of a process manager: each event before its position led to the commands that `react` returns, exactly once,
and no other event led to commands. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from cqrs_cli.proof.findings import MAX_LISTED


class ReactionCommand(NamedTuple):
    """A command of a process manager that was found in a topic, or that is expected there."""

    topic: str
    partition: int
    digest: bytes  # digest of the command's bytes
    offset: int = -1  # offset of a found command; -1 for an expected command
    #: Further partitions where an expected command may be, because its topic was repartitioned.
    earlier_partitions: tuple[int, ...] = ()

    @property
    def allowed_partitions(self) -> tuple[int, ...]:
        """The partitions where an expected command may be."""
        return self.partition, *self.earlier_partitions

    def matches(self, expected: "ReactionCommand") -> bool:
        """True if this found command is the expected command `expected`."""
        has_same_content = (self.topic, self.digest) == (expected.topic, expected.digest)
        return has_same_content and self.partition in expected.allowed_partitions

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}@{self.offset}"


class SubscribedEvent(NamedTuple):
    """An event to which a process manager subscribes."""

    offset: int
    id_prefix: str  # common prefix of the ids of the event's commands; a command's number follows
    time: int  # ms since 1970
    commands: Sequence[ReactionCommand] | None  # returned by `react`; None if `react` raises


class ReactedRange(NamedTuple):
    """The events of a partition that the process manager has processed.

    The process manager may work while the commands are read. So it has certainly processed all events before
    `processed_lower`, and certainly no event from `processed_upper` on.
    """

    processed_lower: int  # position of the process manager before the commands were read
    processed_upper: int  # position of the process manager after the commands were read
    skips: frozenset[int] = frozenset()  # offsets of the events that an operator skipped
    accepted_until: int | None = None  # the position that an operator set to restart after a loss
    events_complete: bool = True  # True if no event of the partition was deleted
    #: Offset of the first event to process; None if an earlier release did not record it.
    start: int | None = None


class ReactionFindings:
    """The violations and counts of a process manager."""

    def __init__(self) -> None:
        self.listed_violations: list[str] = []
        self.violation_count = 0
        self.event_count = self.command_count = self.accepted_losses = 0
        self.unknown_commands = 0  # number of commands whose event may have been deleted
        self.changed_commands = 0  # number of commands that differ from the result of the current `react`

    def add_violation(self, problem: str) -> None:
        """Count a violation, and list it if the list has fewer than `MAX_LISTED`."""
        self.violation_count += 1
        if len(self.listed_violations) < MAX_LISTED:
            self.listed_violations.append(problem)


#: The commands that were found: id prefix → number → all commands with this id.
SentCommands = Mapping[str, Mapping[int, Sequence[ReactionCommand]]]


def check_partition_reactions(
    position: str,
    events: Iterable[SubscribedEvent],
    reacted: ReactedRange,
    sent: SentCommands,
    is_retained: Callable[[ReactionCommand, int], bool],
    findings: ReactionFindings,
) -> Iterator[str]:
    """Check the events of a partition in order, and yield the id prefixes that have commands.

    `position`: `topic:partition`, for messages. `sent`: the commands that were found. `is_retained(command, time)`:
    False if retention may have deleted a command whose event has this time (ms). If the start of the process manager is
    not recorded, the first event with a command counts as the start.
    """
    has_started, order = False, _CommandOrder()
    for event in events:
        sent_for_event = sent.get(event.id_prefix, {})
        if sent_for_event:
            yield event.id_prefix
        has_started = (
            has_started or bool(sent_for_event) if reacted.start is None else event.offset >= reacted.start
        )
        findings.command_count += sum(map(len, sent_for_event.values()))
        may_repeat = reacted.accepted_until is not None and event.offset >= reacted.accepted_until
        problems = _event_problems(
            event,
            sent_for_event,
            reacted,
            has_started and event.offset < reacted.processed_lower,
            is_retained,
            findings,
        )
        if event.offset < reacted.processed_upper:
            problems = chain(
                problems,
                _copy_problems(event, sent_for_event, may_repeat),
                order.find_problems(event, sent_for_event, may_repeat),
            )
        for problem in problems:
            findings.add_violation(f"{position}@{event.offset}: {problem}")


def _event_problems(
    event: SubscribedEvent,
    sent: Mapping[int, Sequence[ReactionCommand]],
    reacted: ReactedRange,
    must_have_commands: bool,
    is_retained: Callable[[ReactionCommand, int], bool],
    findings: ReactionFindings,
) -> Iterator[str]:
    """Yield the violations of an event. `must_have_commands`: the process manager started at or before the event, and
    its position is after the event, so the event's commands must exist.
    """
    if event.offset >= reacted.processed_upper:
        if sent:
            yield f"it has commands, but the position is {reacted.processed_upper}"
        return
    findings.event_count += 1
    if sent and event.offset < (reacted.start or 0):
        yield f"it has commands, but the process manager started at {reacted.start}"
    if event.offset in reacted.skips:
        if sent:
            yield "it has commands, but an operator skipped it"
        return
    if event.commands is None:
        if must_have_commands:
            yield "react raises on it, but it is before the position"
        return
    for number, expected in enumerate(event.commands):
        copies = sent.get(number, ())
        findings.changed_commands += sum(not copy.matches(expected) for copy in copies)
        if copies or not must_have_commands or not is_retained(expected, event.time):
            continue
        if reacted.accepted_until is not None and event.offset < reacted.accepted_until:
            findings.accepted_losses += 1
        else:
            yield f"command {number}, for {expected.topic}, is missing"
    findings.changed_commands += sum(
        len(copies) for number, copies in sent.items() if number >= len(event.commands)
    )


def _matching_copies(
    event: SubscribedEvent, number: int, copies: Sequence[ReactionCommand]
) -> Sequence[ReactionCommand]:
    """Return the copies of command `number` that equal the command that the current `react` returns."""
    expected = () if event.commands is None else event.commands[number : number + 1]
    return [copy for copy in copies if expected and copy.matches(expected[0])]


def _copy_problems(
    event: SubscribedEvent, sent: Mapping[int, Sequence[ReactionCommand]], may_repeat: bool
) -> Iterator[str]:
    """Yield the commands that were sent several times, and each foreign command with the same id that precedes the
    process manager's command: then the latter is a duplicate, and not decided.

    `may_repeat`: an operator may have set the process manager back to a position before the event.
    """
    for number, copies in sorted(sent.items()):
        if len(copies) > 1 and not may_repeat:
            yield f"command {number} was sent {len(copies)} times"
        for own_copy in _matching_copies(event, number, copies)[:1]:
            for copy in copies:
                if copy[:2] == own_copy[:2] and copy.offset < own_copy.offset:
                    yield f"the id of command {number} was taken by {copy}"


class _CommandOrder:
    """Checks that the commands in each partition have the order of their events, and of their numbers for one event."""

    def __init__(self) -> None:
        self._last_offsets: dict[tuple[str, int], int] = {}  # (topic, partition) → offset of the last command

    def find_problems(
        self, event: SubscribedEvent, sent: Mapping[int, Sequence[ReactionCommand]], may_repeat: bool
    ) -> Iterator[str]:
        """Yield the commands that are before a command that should have been sent earlier.

        Of several copies, the first copy of the process manager counts; with `may_repeat`, its last copy.
        """
        for number, copies in sorted(sent.items()):
            own_copies = _matching_copies(event, number, copies) or copies
            own_copy = own_copies[-1 if may_repeat else 0]
            topic_partition = own_copy.topic, own_copy.partition
            if own_copy.offset < self._last_offsets.get(topic_partition, -1):
                yield f"command {number} is at {own_copy}, before a command that was sent earlier"
            self._last_offsets[topic_partition] = own_copy.offset


def check_unmatched(
    sent: SentCommands, matched_prefixes: set[str], events_complete: bool, findings: ReactionFindings
) -> None:
    """Check the commands without an event: their id prefix is not in `matched_prefixes`.

    `events_complete`: no event was deleted.
    """
    for id_prefix, commands in sent.items():
        if id_prefix in matched_prefixes:
            continue
        count = sum(map(len, commands.values()))
        findings.command_count += count
        if events_complete:
            findings.add_violation(f"commands of {id_prefix}: there is no such event")
        else:
            findings.unknown_commands += count


def report_changed_commands(findings: ReactionFindings) -> None:
    """Report the commands that differ from the current `react` as one violation."""
    if findings.changed_commands:
        findings.add_violation(
            f"{findings.changed_commands:,} commands differ from those that react returns now: was react changed?"
        )
