"""The rule of a process manager: each event before its position has its commands, exactly once, and no other event has
commands. Pure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from cqrs_cli.proof.findings import MAX_NAMED


class ReactionPlace(NamedTuple):
    """A command that was found or is expected: topic, partition, and a digest of its bytes.

    `before`: further partitions where an expected command may be, because its topic was repartitioned.
    """

    topic: str
    partition: int
    digest: bytes
    offset: int = -1  # of a command that was found
    before: tuple[int, ...] = ()

    @property
    def homes(self) -> tuple[int, ...]:
        """The partitions where the command may be."""
        return self.partition, *self.before

    def is_as(self, wanted: "ReactionPlace") -> bool:
        """True if this command, which was found, is the expected command `wanted`."""
        same = (self.topic, self.digest) == (wanted.topic, wanted.digest)
        return same and self.partition in wanted.homes

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}@{self.offset}"


class HeardEvent(NamedTuple):
    """An event to which a process manager subscribes. `origin`: the common prefix of its commands' ids, without the
    number.

    `commands`: the commands that `react` returns for it; None if `react` raises.
    """

    offset: int
    origin: str
    time: int  # ms
    commands: Sequence[ReactionPlace] | None


class ReactedRange(NamedTuple):
    """The processed events, by the positions before (`surely`) and after (`at_most`) the commands were read."""

    surely: int
    at_most: int
    skips: frozenset[int] = frozenset()  # events that an operator skipped
    accepted: int | None = None  # the restart position that an operator set after a loss
    whole: bool = True  # no event of the partition was deleted
    start: int | None = None  # the first event to process; None: an earlier release did not record it


class Reactions:
    """The findings about a process manager. `unknown`: commands of deleted events, or before an accepted loss."""

    def __init__(self) -> None:
        self.named: list[str] = []
        self.count = self.events = self.commands = self.accepted = self.unknown = 0
        self.others = 0  # commands that the current `react` does not return

    def add(self, what: str) -> None:
        """Count a violation, and list it if the list has fewer than `MAX_NAMED`."""
        self.count += 1
        if len(self.named) < MAX_NAMED:
            self.named.append(what)


#: The commands that were found, by origin and number.
Sent = Mapping[str, Mapping[int, Sequence[ReactionPlace]]]


def judge_partition(
    place: str,
    events: Iterable[HeardEvent],
    reacted: ReactedRange,
    sent: Sent,
    kept: Callable[[ReactionPlace, int], bool],
    found: Reactions,
) -> Iterator[str]:
    """Check the events of a partition in order, and yield the origins with commands.

    `kept`: False if a command of an event at this time (ms) may be deleted. If the start of the process manager is not
    recorded, it is taken to be the first event with a command.
    """
    begun, order = False, _Order()
    for event in events:
        there = sent.get(event.origin, {})
        if there:
            yield event.origin
        begun = begun or bool(there) if reacted.start is None else event.offset >= reacted.start
        found.commands += sum(map(len, there.values()))
        again = reacted.accepted is not None and event.offset >= reacted.accepted
        faults = _faults(event, there, reacted, begun and event.offset < reacted.surely, kept, found)
        if event.offset < reacted.at_most:
            faults = chain(faults, _copies(event, there, again), order.faults(event, there, again))
        for what in faults:
            found.add(f"{place}@{event.offset}: {what}")


def _faults(
    event: HeardEvent,
    there: Mapping[int, Sequence[ReactionPlace]],
    reacted: ReactedRange,
    surely: bool,
    kept: Callable[[ReactionPlace, int], bool],
    found: Reactions,
) -> Iterator[str]:
    """Yield the violations of an event. `surely`: the process manager had started, and has passed the event."""
    if event.offset >= reacted.at_most:
        if there:
            yield f"it has commands, and the position is {reacted.at_most}"
        return
    found.events += 1
    if there and event.offset < (reacted.start or 0):
        yield f"it has commands, and the process manager started at {reacted.start}"
    if event.offset in reacted.skips:
        if there:
            yield "it has commands, and an operator left it out"
        return
    if event.commands is None:
        if surely:
            yield "react raises on it, and it is below the position"
        return
    for number, wanted in enumerate(event.commands):
        copies = there.get(number, ())
        found.others += sum(not copy.is_as(wanted) for copy in copies)
        if copies or not surely or not kept(wanted, event.time):
            continue
        if reacted.accepted is not None and event.offset < reacted.accepted:
            found.accepted += 1
        else:
            yield f"command {number}, for {wanted.topic}, is missing"
    found.others += sum(len(copies) for number, copies in there.items() if number >= len(event.commands))


def _own(event: HeardEvent, number: int, copies: Sequence[ReactionPlace]) -> Sequence[ReactionPlace]:
    """Return the copies of a command that equal the command that `react` returns now."""
    wanted = () if event.commands is None else event.commands[number : number + 1]
    return [copy for copy in copies if wanted and copy.is_as(wanted[0])]


def _copies(event: HeardEvent, there: Mapping[int, Sequence[ReactionPlace]], again: bool) -> Iterator[str]:
    """Yield the commands with several copies, and each copy that prevents the process manager's own command from being
    decided.

    `again`: the process manager may have been set back to before the event.
    """
    for number, copies in sorted(there.items()):
        if len(copies) > 1 and not again:
            yield f"command {number} was sent {len(copies)} times"
        for own in _own(event, number, copies)[:1]:
            for copy in copies:
                if copy[:2] == own[:2] and copy.offset < own.offset:
                    yield f"the id of command {number} was taken by {copy}"


class _Order:
    """Checks the order of the commands in each partition: by event, and by number for one event."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], int] = {}

    def faults(
        self, event: HeardEvent, there: Mapping[int, Sequence[ReactionPlace]], again: bool
    ) -> Iterator[str]:
        """Yield the commands that are before a command that should have been sent earlier.

        If there are several copies, the process manager's own copy is used; its last copy, if `again`.
        """
        for number, copies in sorted(there.items()):
            own = _own(event, number, copies) or copies
            one = own[-1 if again else 0]
            at = one.topic, one.partition
            if one.offset < self._last.get(at, -1):
                yield f"command {number} stands at {one}, before the one that was sent before it"
            self._last[at] = one.offset


def judge_strays(sent: Sent, matched: set[str], whole: bool, found: Reactions) -> None:
    """Check the commands whose origin is not in `matched`, i.e. without an event. `whole`: no event was deleted."""
    for origin, there in sent.items():
        if origin in matched:
            continue
        count = sum(map(len, there.values()))
        found.commands += count
        if whole:
            found.add(f"commands of {origin}: there is no such event")
        else:
            found.unknown += count


def judge_others(found: Reactions) -> None:
    """Report the commands that differ from the current `react` as one violation."""
    if found.others:
        found.add(f"{found.others:,} commands are not those that react gives now: was it changed?")
