"""The rule of a process: each event below its position has its commands, once, and no other event has any. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cqrs_cli.proof.findings import MAX_NAMED


class ReactionPlace(NamedTuple):
    """The place of a command, found or expected: topic and partition, and a digest of its bytes."""

    topic: str
    partition: int
    digest: bytes


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
    begun = False
    for event in events:
        there = sent.get(event.origin, {})
        if there:
            yield event.origin
        begun = begun or bool(there)
        found.commands += sum(map(len, there.values()))
        for what in _faults(event, there, reacted, begun, kept, found):
            found.add(f"{place}@{event.offset}: {what}")


def _faults(
    event: HeardEvent,
    there: Mapping[int, Sequence[ReactionPlace]],
    reacted: ReactedRange,
    begun: bool,
    kept: Callable[[ReactionPlace, int], bool],
    found: Reactions,
) -> Iterator[str]:
    if event.offset >= reacted.at_most:
        if there:
            yield f"it has commands, and the position is {reacted.at_most}"
        return
    found.events += 1
    again = reacted.accepted is not None and event.offset >= reacted.accepted
    for number, copies in sorted(there.items()):
        if len(copies) > 1 and not again:
            yield f"command {number} was sent {len(copies)} times"
    if event.offset in reacted.skips:
        if there:
            yield "it has commands, and an operator left it out"
        return
    if event.commands is None:
        if begun and event.offset < reacted.surely:
            yield "react raises on it, and it is below the position"
        return
    for number, wanted in enumerate(event.commands):
        copies = there.get(number, ())
        found.others += sum(copy != wanted for copy in copies)
        if copies or not begun or event.offset >= reacted.surely or not kept(wanted, event.time):
            continue
        if reacted.accepted is not None and event.offset < reacted.accepted:
            found.accepted += 1
        else:
            yield f"command {number}, for {wanted.topic}, is missing"
    found.others += sum(len(copies) for number, copies in there.items() if number >= len(event.commands))


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
