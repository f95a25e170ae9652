"""Messages that belong together, as trees: commands, their outcomes and events, and the commands of these. Pure."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from cqrs_cli.client.queries.messages import CommandPlace, LinkedMessage


@dataclass
class CommandNode:
    """A command and all that came of it. `command` is None if its record was not found: deleted, or sent earlier."""

    place: CommandPlace
    command: LinkedMessage | None = None
    outcome: LinkedMessage | None = None
    dead_letter: LinkedMessage | None = None
    events: list["EventNode"] = field(default_factory=list)
    commands: list["CommandNode"] = field(default_factory=list)  # those that name this one as their cause

    @property
    def messages(self) -> list[LinkedMessage]:
        """Its own message and those that it led to."""
        events = [event.message for event in self.events]
        return [one for one in (self.command, self.outcome, self.dead_letter, *events) if one is not None]

    @property
    def time(self) -> tuple[int, CommandPlace]:
        """The time at which it was sent; what came of a command carries its time."""
        return min(message.record.timestamp for message in self.messages), self.place


@dataclass
class EventNode:
    """An event and the commands that it caused."""

    message: LinkedMessage
    commands: list[CommandNode] = field(default_factory=list)


class Lineage(NamedTuple):
    """The commands without a cause among those found, the oldest first, and all correlation ids."""

    roots: list[CommandNode]
    correlations: list[str]


def lineage(messages: Iterable[LinkedMessage]) -> Lineage:
    """The messages as trees: from each command to its outcome, events and dead letter, and to what those caused."""
    nodes: dict[CommandPlace, CommandNode] = {}
    anonymous: list[LinkedMessage] = []
    for message in messages:
        if message.is_anonymous:
            anonymous.append(message)
        else:
            _put(nodes.setdefault(message.caused_by, CommandNode(message.caused_by)), message)
    for message in anonymous:
        if message.caused_by in nodes:
            _put(nodes[message.caused_by], message)
    ordered = sorted(nodes.values(), key=lambda node: node.time)
    causes: dict[str, list[_Cause]] = defaultdict(list)
    for node in ordered:
        node.events.sort(key=lambda event: event.message.record.offset)
        for event in node.events:
            causes[event.message.id].append(_Cause(node, event.commands))
        if node.command is not None:
            causes[node.command.id].append(_Cause(node, node.commands))
    parents: dict[CommandPlace, CommandNode] = {}
    roots: list[CommandNode] = []
    for node in ordered:
        named = [] if node.command is None else causes.get(node.command.causation, [])
        cause = _choose(named, node, parents)
        if cause is None:
            roots.append(node)
        else:
            parents[node.place] = cause.node
            cause.commands.append(node)
    found = {message.correlation for node in ordered for message in node.messages}
    return Lineage(roots, sorted(found - {""}))


class _Cause(NamedTuple):
    """A command, or an event of it, with the list of the commands that it caused."""

    node: CommandNode
    commands: list[CommandNode]


def _choose(
    named: list[_Cause], node: CommandNode, parents: dict[CommandPlace, CommandNode]
) -> _Cause | None:
    """The cause of a command among those that have the id it names: an event's id is unique in its topic only.

    The last that is not later, as far as the brokers' clocks agree; never one that the command itself led to.
    """
    named = _of_its_topic(named, "" if node.command is None else node.command.id)
    earlier = [cause for cause in named if cause.node.time <= node.time]
    for cause in [*reversed(earlier), *named]:
        above: CommandNode | None = cause.node
        while above is not None and above is not node:
            above = parents.get(above.place)
        if above is None:
            return cause
    return None


def _of_its_topic(named: list[_Cause], id: str) -> list[_Cause]:
    """The causes from the topic that a process's command names, `<process>/<events topic>/…`; all for other ids."""
    _, _, rest = id.partition("/")
    topic, at, _ = rest.partition("/")
    found = [cause for cause in named if at and topic.endswith(f"{cause.node.place[0]}.events")]
    longest = max((len(cause.node.place[0]) for cause in found), default=0)
    return [cause for cause in found if len(cause.node.place[0]) == longest] or named


def _put(node: CommandNode, message: LinkedMessage) -> None:
    if message.kind == "commands":
        node.command = message
    elif message.kind == "outcomes":
        node.outcome = message
    elif message.kind == "events":
        node.events.append(EventNode(message))
    else:
        node.dead_letter = message
