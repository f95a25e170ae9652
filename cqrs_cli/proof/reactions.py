"""The rule of a process manager: each event before the process manager's position has its commands, exactly once, and
no other event has commands. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from cqrs_cli.proof.findings import MAX_LISTED


class ReactionCommand(NamedTuple):
    """A command that was found or is expected: topic, partition, and a digest of its bytes.

    `earlier_partitions`: further partitions where an expected command may be, because its topic was repartitioned.
    """

    topic: str
    partition: int
    digest: bytes
    offset: int = -1  # of a command that was found
    earlier_partitions: tuple[int, ...] = ()

    @property
    def allowed_partitions(self) -> tuple[int, ...]:
        """The partitions where the command may be."""
        return self.partition, *self.earlier_partitions

    def matches(self, expected: "ReactionCommand") -> bool:
        """True if this command, which was found, is the expected command `expected`."""
        has_same_content = (self.topic, self.digest) == (expected.topic, expected.digest)
        return has_same_content and self.partition in expected.allowed_partitions

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}@{self.offset}"


class SubscribedEvent(NamedTuple):
    """An event to which a process manager subscribes. `origin`: the common prefix of its commands' ids, without the
    number.

    `commands`: the commands that `react` returns for it; None if `react` raises.
    """

    offset: int
    origin: str
    time: int  # ms
    commands: Sequence[ReactionCommand] | None


class ReactedRange(NamedTuple):
    """The processed events, by the positions before (`processed_lower`) and after (`processed_upper`) the commands were
    read.
    """

    processed_lower: int
    processed_upper: int
    skips: frozenset[int] = frozenset()  # events that an operator skipped
    accepted_until: int | None = None  # the restart position that an operator set after a loss
    events_complete: bool = True  # no event of the partition was deleted
    start: int | None = None  # the first event to process; None: an earlier release did not record it


class Reactions:
    """The findings about a process manager. `unknown`: commands of deleted events, or before an accepted loss."""

    def __init__(self) -> None:
        self.listed: list[str] = []
        self.count = self.events = self.commands = self.accepted_losses = self.unknown = 0
        self.changed_commands = 0  # commands that the current `react` does not return

    def add_violation(self, problem: str) -> None:
        """Count a violation, and list it if the list has fewer than `MAX_LISTED`."""
        self.count += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(problem)


#: The commands that were found, by origin and number.
SentCommands = Mapping[str, Mapping[int, Sequence[ReactionCommand]]]


def check_partition_reactions(
    position: str,
    events: Iterable[SubscribedEvent],
    reacted: ReactedRange,
    sent: SentCommands,
    is_retained: Callable[[ReactionCommand, int], bool],
    reactions: Reactions,
) -> Iterator[str]:
    """Check the events of a partition in order, and yield the origins with commands.

    `is_retained`: False if a command of an event at this time (ms) may be deleted. If the start of the process manager
    is not recorded, it is taken to be the first event with a command.
    """
    has_started, order = False, _CommandOrder()
    for event in events:
        sent_for_event = sent.get(event.origin, {})
        if sent_for_event:
            yield event.origin
        has_started = (
            has_started or bool(sent_for_event) if reacted.start is None else event.offset >= reacted.start
        )
        reactions.commands += sum(map(len, sent_for_event.values()))
        may_repeat = reacted.accepted_until is not None and event.offset >= reacted.accepted_until
        problems = _event_problems(
            event,
            sent_for_event,
            reacted,
            has_started and event.offset < reacted.processed_lower,
            is_retained,
            reactions,
        )
        if event.offset < reacted.processed_upper:
            problems = chain(
                problems,
                _copy_problems(event, sent_for_event, may_repeat),
                order.find_problems(event, sent_for_event, may_repeat),
            )
        for problem in problems:
            reactions.add_violation(f"{position}@{event.offset}: {problem}")


def _event_problems(
    event: SubscribedEvent,
    sent: Mapping[int, Sequence[ReactionCommand]],
    reacted: ReactedRange,
    must_have_commands: bool,
    is_retained: Callable[[ReactionCommand, int], bool],
    reactions: Reactions,
) -> Iterator[str]:
    """Yield the violations of an event. `must_have_commands`: the process manager had started, and has passed the
    event.
    """
    if event.offset >= reacted.processed_upper:
        if sent:
            yield f"it has commands, but the position is {reacted.processed_upper}"
        return
    reactions.events += 1
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
        reactions.changed_commands += sum(not copy.matches(expected) for copy in copies)
        if copies or not must_have_commands or not is_retained(expected, event.time):
            continue
        if reacted.accepted_until is not None and event.offset < reacted.accepted_until:
            reactions.accepted_losses += 1
        else:
            yield f"command {number}, for {expected.topic}, is missing"
    reactions.changed_commands += sum(
        len(copies) for number, copies in sent.items() if number >= len(event.commands)
    )


def _matching_copies(
    event: SubscribedEvent, number: int, copies: Sequence[ReactionCommand]
) -> Sequence[ReactionCommand]:
    """Return the copies of a command that equal the command that `react` returns now."""
    expected = () if event.commands is None else event.commands[number : number + 1]
    return [copy for copy in copies if expected and copy.matches(expected[0])]


def _copy_problems(
    event: SubscribedEvent, sent: Mapping[int, Sequence[ReactionCommand]], may_repeat: bool
) -> Iterator[str]:
    """Yield the commands with several copies, and each copy that prevents the process manager's own command from being
    decided.

    `may_repeat`: the process manager may have been set back to before the event.
    """
    for number, copies in sorted(sent.items()):
        if len(copies) > 1 and not may_repeat:
            yield f"command {number} was sent {len(copies)} times"
        for own in _matching_copies(event, number, copies)[:1]:
            for copy in copies:
                if copy[:2] == own[:2] and copy.offset < own.offset:
                    yield f"the id of command {number} was taken by {copy}"


class _CommandOrder:
    """Checks the order of the commands in each partition: by event, and by number for one event."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], int] = {}

    def find_problems(
        self, event: SubscribedEvent, sent: Mapping[int, Sequence[ReactionCommand]], may_repeat: bool
    ) -> Iterator[str]:
        """Yield the commands that are before a command that should have been sent earlier.

        If there are several copies, the process manager's own copy is used; its last copy, if `may_repeat`.
        """
        for number, copies in sorted(sent.items()):
            own = _matching_copies(event, number, copies) or copies
            checked = own[-1 if may_repeat else 0]
            topic_partition = checked.topic, checked.partition
            if checked.offset < self._last.get(topic_partition, -1):
                yield f"command {number} is at {checked}, before a command that was sent earlier"
            self._last[topic_partition] = checked.offset


def check_unmatched(
    sent: SentCommands, matched: set[str], events_complete: bool, reactions: Reactions
) -> None:
    """Check the commands whose origin is not in `matched`, i.e. without an event. `events_complete`: no event was
    deleted.
    """
    for origin, commands in sent.items():
        if origin in matched:
            continue
        count = sum(map(len, commands.values()))
        reactions.commands += count
        if events_complete:
            reactions.add_violation(f"commands of {origin}: there is no such event")
        else:
            reactions.unknown += count


def report_changed_commands(reactions: Reactions) -> None:
    """Report the commands that differ from the current `react` as one violation."""
    if reactions.changed_commands:
        reactions.add_violation(
            f"{reactions.changed_commands:,} commands differ from those that react returns now: was react changed?"
        )
