"""Builds trees of related messages for `cqrs trace`: commands, their results, and the commands that they caused."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from cqrs_cli.client.queries.messages import CommandPosition, LinkedMessage


@dataclass
class CommandNode:
    """A command and its results. `command` is None if its record is deleted, or older than the search."""

    position: CommandPosition
    command: LinkedMessage | None = None
    outcome: LinkedMessage | None = None
    dead_letter: LinkedMessage | None = None
    events: list["EventNode"] = field(default_factory=list)
    #: The commands whose causation id is the id of this command.
    commands: list["CommandNode"] = field(default_factory=list)

    @property
    def messages(self) -> list[LinkedMessage]:
        """The command's own message, outcome, dead letter and events."""
        events = [event.message for event in self.events]
        return [
            message
            for message in (self.command, self.outcome, self.dead_letter, *events)
            if message is not None
        ]

    @property
    def time(self) -> tuple[int, CommandPosition]:
        """The sort key of the command: the earliest timestamp of its messages, then its position."""
        return min(message.record.timestamp for message in self.messages), self.position


@dataclass
class EventNode:
    """An event, and the commands that it caused."""

    message: LinkedMessage
    commands: list[CommandNode] = field(default_factory=list)


class Lineage(NamedTuple):
    """The commands whose cause was not found, the oldest first, and all correlation ids."""

    roots: list[CommandNode]
    correlations: list[str]


def lineage(messages: Iterable[LinkedMessage]) -> Lineage:
    """Return the messages as trees: each command with its results, and the commands that the results caused."""
    nodes: dict[CommandPosition, CommandNode] = {}
    anonymous_messages: list[LinkedMessage] = []
    for message in messages:
        if message.is_anonymous:
            anonymous_messages.append(message)
        else:
            _add_message(nodes.setdefault(message.caused_by, CommandNode(message.caused_by)), message)
    for message in anonymous_messages:
        if message.caused_by in nodes:
            _add_message(nodes[message.caused_by], message)
    sorted_nodes = sorted(nodes.values(), key=lambda node: node.time)
    causes: dict[str, list[_Cause]] = defaultdict(list)
    for node in sorted_nodes:
        node.events.sort(key=lambda event: event.message.record.offset)
        for event in node.events:
            causes[event.message.id].append(_Cause(node, event.commands))
        if node.command is not None:
            causes[node.command.id].append(_Cause(node, node.commands))
    parents: dict[CommandPosition, CommandNode] = {}
    roots: list[CommandNode] = []
    for node in sorted_nodes:
        candidates = [] if node.command is None else causes.get(node.command.causation, [])
        cause = _choose_cause(candidates, node, parents)
        if cause is None:
            roots.append(node)
        else:
            parents[node.position] = cause.node
            cause.commands.append(node)
    correlations = {message.correlation for node in sorted_nodes for message in node.messages}
    return Lineage(roots, sorted(correlations - {""}))


class _Cause(NamedTuple):
    """A possible cause of a command: a command or one of its events, with the list of the commands that it caused."""

    node: CommandNode
    commands: list[CommandNode]


def _choose_cause(
    candidates: list[_Cause], node: CommandNode, parents: dict[CommandPosition, CommandNode]
) -> _Cause | None:
    """Return the cause of a command among the candidates with its causation id. There may be several candidates,
    because an event id is unique only in its topic.

    Prefer the latest candidate that is not later than the command, as far as the brokers' clocks agree. Never return a
    descendant of the command.
    """
    candidates = _from_topic_in_id(candidates, "" if node.command is None else node.command.id)
    earlier_causes = [cause for cause in candidates if cause.node.time <= node.time]
    for cause in [*reversed(earlier_causes), *candidates]:
        ancestor: CommandNode | None = cause.node
        while ancestor is not None and ancestor is not node:
            ancestor = parents.get(ancestor.position)
        if ancestor is None:
            return cause
    return None


def _from_topic_in_id(candidates: list[_Cause], id: str) -> list[_Cause]:
    """Return the candidates from the events topic that `id` names: the id of a process manager's command is
    `<process>/<events topic>/…`. Return all candidates if no candidate is from such a topic.
    """
    _, _, topic_and_position = id.partition("/")
    topic, separator, _ = topic_and_position.partition("/")
    matches = [
        cause for cause in candidates if separator and topic.endswith(f"{cause.node.position[0]}.events")
    ]
    longest = max((len(cause.node.position[0]) for cause in matches), default=0)
    return [cause for cause in matches if len(cause.node.position[0]) == longest] or candidates


def _add_message(node: CommandNode, message: LinkedMessage) -> None:
    if message.kind == "commands":
        node.command = message
    elif message.kind == "outcomes":
        node.outcome = message
    elif message.kind == "events":
        node.events.append(EventNode(message))
    else:
        node.dead_letter = message
