"""Histories of a process manager: its events, its commands for them, and the findings of the rule."""

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from cqrs_cli.proof.reactions import (
    ReactedRange,
    ReactionCommand,
    ReactionFindings,
    SubscribedEvent,
    check_partition_reactions,
    check_unmatched,
    report_changed_commands,
)

SentCommands = dict[str, dict[int, list[ReactionCommand]]]


@dataclass
class History:
    """Events 0 to `end`. A process manager reacted to the events from `start` to `position`."""

    counts: Sequence[int]  # number of commands of each event
    start: int
    position: int
    skips: frozenset[int] = frozenset()
    accepted: int | None = None
    raises: frozenset[int] = frozenset()
    deleted_below: int = 0  # ms: commands of earlier events may be deleted
    is_start_recorded: bool = False

    def event(self, offset: int) -> SubscribedEvent:
        commands = [self.command(offset, number) for number in range(self.counts[offset])]
        return SubscribedEvent(
            offset, f"p/t/{offset}@{offset}", offset, None if offset in self.raises else commands
        )

    def command(self, offset: int, number: int) -> ReactionCommand:
        return ReactionCommand(
            "payment.commands", offset % 3, b"%d/%d" % (offset, number), 10 * offset + number
        )

    def sent_commands(self) -> SentCommands:
        """Return the commands of a process manager without faults."""
        return {
            f"p/t/{offset}@{offset}": {
                number: [self.command(offset, number)] for number in range(self.counts[offset])
            }
            for offset in range(self.start, self.position)
            if offset not in self.skips and self.counts[offset]
        }

    def check(self, sent: SentCommands, position: int | None = None) -> ReactionFindings:
        reactions = ReactionFindings()
        reacted = ReactedRange(
            self.position if position is None else position,
            self.position,
            self.skips,
            self.accepted,
            start=self.start if self.is_start_recorded else None,
        )
        events = map(self.event, range(len(self.counts)))
        first_times = {"payment.commands": self.deleted_below}
        matched = set(
            check_partition_reactions(
                "t:0",
                events,
                reacted,
                sent,
                lambda command, time: time >= first_times[command.topic],
                reactions,
            )
        )
        check_unmatched(sent, matched, self.accepted is None, reactions)
        report_changed_commands(reactions)
        return reactions


@st.composite
def histories(draw: st.DrawFn) -> History:
    counts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=12))
    start = draw(st.integers(0, len(counts)))
    position = draw(st.integers(start, len(counts)))
    skips = draw(st.frozensets(st.integers(start, position - 1))) if position > start else frozenset[int]()
    return History(counts, start, position, skips, is_start_recorded=draw(st.booleans()))
