"""Builds trees of related messages for `cqrs trace`: commands, their results, and the commands that these caused."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from cqrs_cli.client.queries.messages import CommandPosition, LinkedMessage, drop_of


@dataclass
class CommandNode:
    """A command and its results. `command` is None if its record was deleted, or is older than the searched range."""

    position: CommandPosition
    command: LinkedMessage | None = None
    outcome: LinkedMessage | None = None
    dead_letter: LinkedMessage | None = None
    drop: LinkedMessage | None = None  # the record of the drop that deleted the command's dead letter
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
    def has_failed(self) -> bool:
        """True if the command's outcome is `failed`."""
        return self.outcome is not None and self.outcome.type.endswith(".failed")

    @property
    def timestamp(self) -> int:
        """The earliest timestamp of `messages`, in ms."""
        return min(message.record.timestamp for message in self.messages)

    @property
    def sort_key(self) -> tuple[int, CommandPosition]:
        """Sorts commands by time, then by position."""
        return self.timestamp, self.position


class EventSkip(NamedTuple):
    """A process manager that skipped an event, because an operator requested it."""

    process: str
    actor: str  # the operator; empty if unknown
    time: int | None  # ms since 1970; None if unknown


#: (aggregate name, partition, offset) of an event → its skips.
Skips = Mapping[tuple[str, int, int], list[EventSkip]]


@dataclass
class EventNode:
    """An event, the commands that it caused, and the process managers that skipped it."""

    message: LinkedMessage
    commands: list[CommandNode] = field(default_factory=list)
    skips: list[EventSkip] = field(default_factory=list)


class MessageTrees(NamedTuple):
    """The trees of messages. `roots`: the commands whose cause was not found, the oldest first. `correlations`: all
    correlation ids.
    """

    roots: list[CommandNode]
    correlations: list[str]


def message_trees(messages: Iterable[LinkedMessage], skips: Skips = MappingProxyType({})) -> MessageTrees:
    """Return the messages as trees: each command with its results, and the commands that it or its events caused."""
    sorted_nodes = command_nodes(messages)
    causes: dict[str, list[_Cause]] = defaultdict(list)  # id of a command or event → the causes with this id
    for node in sorted_nodes:
        for event in node.events:
            message = event.message
            event.skips = skips.get((message.aggregate, message.partition, message.record.offset), [])
            causes[event.message.id].append(_Cause(node, event.commands))
        if node.command is not None:
            causes[node.command.id].append(_Cause(node, node.commands))
    parents: dict[CommandPosition, CommandNode] = {}  # command → the command from which it followed
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
    return MessageTrees(roots, sorted(correlations - {""}))


def command_nodes(messages: Iterable[LinkedMessage]) -> list[CommandNode]:
    """Return the commands, the oldest first, each with its results, but without the commands that it caused."""
    nodes: dict[CommandPosition, CommandNode] = {}
    anonymous_messages: list[LinkedMessage] = []
    drops: list[LinkedMessage] = []
    for message in messages:
        if message.kind == "drops":
            drops.append(message)
        elif message.is_anonymous:
            anonymous_messages.append(message)
        else:
            _add_message(
                nodes.setdefault(message.command_position, CommandNode(message.command_position)), message
            )
    for message in anonymous_messages:
        if message.command_position in nodes:
            _add_message(nodes[message.command_position], message)
    drops.sort(key=lambda message: message.record.timestamp)
    for node in nodes.values():
        if node.has_failed and node.dead_letter is None:
            node.drop = next((message for message in drops if drop_of(message, node.position)), None)
        node.events.sort(key=lambda event: event.message.record.offset)
    return sorted(nodes.values(), key=lambda node: node.sort_key)


class _Cause(NamedTuple):
    """A possible cause of a command: another command (`node`) or one of its events.

    `commands`: the list of the commands that the cause caused, to which a command is appended.
    """

    node: CommandNode
    commands: list[CommandNode]


def _choose_cause(
    candidates: list[_Cause], node: CommandNode, parents: dict[CommandPosition, CommandNode]
) -> _Cause | None:
    """Return the cause of the command `node`; None if there is none. The candidates are the commands and events whose
    id is the causation id of `node`: several, because an event id is unique only in its topic.

    Prefer the latest candidate that is not later than the command, by the timestamps of the brokers. Never return a
    descendant of the command.

    `parents`: position of a command → the command that caused it.
    """
    candidates = _from_topic_in_id(candidates, "" if node.command is None else node.command.id)
    earlier_causes = [cause for cause in candidates if cause.node.sort_key <= node.sort_key]
    for cause in [*reversed(earlier_causes), *candidates]:
        ancestor: CommandNode | None = cause.node
        while ancestor is not None and ancestor is not node:
            ancestor = parents.get(ancestor.position)
        if ancestor is None:
            return cause
    return None


def _from_topic_in_id(candidates: list[_Cause], id: str) -> list[_Cause]:
    """Return the candidates from the events topic that the command id `id` names; if there is none, all candidates. The
    id of a process manager's command is `<process>/<events topic>/…`.
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
