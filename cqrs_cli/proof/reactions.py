"""The rule of a process: each event below its position has its commands, once, and no other event has any. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from cqrs_cli.proof.findings import MAX_NAMED


class ReactionPlace(NamedTuple):
    """The place of a command, found or expected: topic and partition, and a digest of its bytes.

    `before`: partitions where one that is expected may stand, too, since its topic has grown.
    """

    topic: str
    partition: int
    digest: bytes
    offset: int = -1  # of one that is found
    before: tuple[int, ...] = ()

    @property
    def homes(self) -> tuple[int, ...]:
        """The partitions where it may stand."""
        return self.partition, *self.before

    def is_as(self, wanted: "ReactionPlace") -> bool:
        """True if the command that is found here is the wanted one."""
        same = (self.topic, self.digest) == (wanted.topic, wanted.digest)
        return same and self.partition in wanted.homes

    def __str__(self) -> str:
        return f"{self.topic}:{self.partition}@{self.offset}"


class HeardEvent(NamedTuple):
    """An event that a process hears. `origin`: what its commands' ids have in common, all but the number.

    `commands`: those that `react` gives for it; None if it raises.
    """

    offset: int
    origin: str
    time: int  # ms
    commands: Sequence[ReactionPlace] | None


class ReactedRange(NamedTuple):
    """The events of a partition that are reacted to, as the position said before and after the commands were read."""

    surely: int
    at_most: int
    skips: frozenset[int] = frozenset()  # events that an operator left out
    accepted: int | None = None  # where an operator said to go on after a loss
    whole: bool = True  # no event of the partition was deleted


class Reactions:
    """The findings about a process. `unknown`: commands of events that are deleted, or before an accepted loss."""

    def __init__(self) -> None:
        self.named: list[str] = []
        self.count = self.events = self.commands = self.accepted = self.unknown = 0
        self.others = 0  # commands that are not those that `react` gives now

    def add(self, what: str) -> None:
        """Count a violation, and name it unless there are too many."""
        self.count += 1
        if len(self.named) < MAX_NAMED:
            self.named.append(what)


#: The commands with an origin, by number.
Sent = Mapping[str, Mapping[int, Sequence[ReactionPlace]]]


def judge_partition(
    place: str,
    events: Iterable[HeardEvent],
    reacted: ReactedRange,
    sent: Sent,
    kept: Callable[[ReactionPlace, int], bool],
    found: Reactions,
) -> Iterator[str]:
    """Judge the events of a partition, in order; yields the origins that are of it.

    `kept`: false where a command of an event of this time (ms) may be deleted. Where a process began is not recorded:
    it is at the first event that has a command.
    """
    begun, order = False, _Order()
    for event in events:
        there = sent.get(event.origin, {})
        if there:
            yield event.origin
        begun = begun or bool(there)
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
    """`surely`: the process has begun, and its position is behind the event."""
    if event.offset >= reacted.at_most:
        if there:
            yield f"it has commands, and the position is {reacted.at_most}"
        return
    found.events += 1
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
    """The copies of a command that are as `react` gives it now."""
    wanted = () if event.commands is None else event.commands[number : number + 1]
    return [copy for copy in copies if wanted and copy.is_as(wanted[0])]


def _copies(event: HeardEvent, there: Mapping[int, Sequence[ReactionPlace]], again: bool) -> Iterator[str]:
    """Yield which commands have several copies, and which of these keeps the process's own from being decided.

    `again`: the process may have gone back behind the event.
    """
    for number, copies in sorted(there.items()):
        if len(copies) > 1 and not again:
            yield f"command {number} was sent {len(copies)} times"
        for own in _own(event, number, copies)[:1]:
            for copy in copies:
                if copy[:2] == own[:2] and copy.offset < own.offset:
                    yield f"the id of command {number} was taken by {copy}"


class _Order:
    """The order of the commands on each partition: that of their events, and for one event that of their numbers."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], int] = {}

    def faults(
        self, event: HeardEvent, there: Mapping[int, Sequence[ReactionPlace]], again: bool
    ) -> Iterator[str]:
        """Yield the commands that stand before the one that was to be sent before them.

        Of several copies the process's own counts, the last of them if it may have gone back.
        """
        for number, copies in sorted(there.items()):
            own = _own(event, number, copies) or copies
            one = own[-1 if again else 0]
            at = one.topic, one.partition
            if one.offset < self._last.get(at, -1):
                yield f"command {number} stands at {one}, before the one that was sent before it"
            self._last[at] = one.offset


def judge_strays(sent: Sent, matched: set[str], whole: bool, found: Reactions) -> None:
    """Judge the commands of a topic of events that none of its events has led to. `whole`: no event was deleted."""
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
    """Count what other code has sent as one violation."""
    if found.others:
        found.add(f"{found.others:,} commands are not those that react gives now: was it changed?")
