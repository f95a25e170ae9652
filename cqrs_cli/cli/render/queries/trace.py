"""The output of `cqrs trace` for people: related messages as a tree."""

from typing import TYPE_CHECKING

import msgspec

from cqrs_cli.cli.output import printable
from cqrs_cli.client.queries.message_trees import CommandNode, EventSkip, MessageTrees
from cqrs_cli.client.queries.messages import LinkedMessage, reason_of
from cqrs_cli.client.queries.trace import TraceResult
from cqrs_cli.client.queries.trace_document import attribution_of, subject_message_of
from cqrs_cli.core.messages.drop_record import read_drop_record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.formatting import counted
from cqrs_cli.kafka.position_notation import format_position

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text
    from rich.tree import Tree


def searched_scope_text(result: TraceResult, since: int) -> str:
    """Return a text for messages: how many records of which aggregates were searched, and since when."""
    record_text, names = counted(result.record_count, "record"), ", ".join(result.searched_aggregates)
    return f"searched {record_text} since {rfc3339(since)} of {names}"


def trace_text(trees: MessageTrees) -> "RenderableType":
    """Return a tree for each correlation, with the commands in the order of `trees.roots`."""
    from rich.console import Group
    from rich.text import Text
    from rich.tree import Tree

    rendered = {name: Tree(Text(printable(name), "bold"), guide_style="dim") for name in trees.correlations}
    for node in trees.roots:
        name = next(message.correlation for message in node.messages if message.correlation)
        _add_command(rendered[name], node)
    return Group(*(tree for tree in rendered.values() if tree.children))


def _add_command(tree: "Tree", node: CommandNode) -> None:
    from rich.text import Text

    branch = tree.add(_command_line(node))
    if node.outcome is not None:
        branch.add(_outcome_line(node.outcome))
    elif node.command is not None:
        branch.add(Text("no outcome yet", "dim"))
    if node.dead_letter is not None:
        branch.add(Text(printable(f"dead letter  {reason_of(node.dead_letter)}"), "yellow"))
    if node.drop is not None:
        branch.add(Text(printable(_drop_text(node.drop)), "yellow"))
    for event in node.events:
        event_branch = branch.add(_event_line(event.message))
        for skip in event.skips:
            event_branch.add(Text(printable(_skip_text(skip)), "yellow"))
        for caused_node in event.commands:
            _add_command(event_branch, caused_node)
    for caused_node in node.commands:
        _add_command(branch, caused_node)


def _command_line(node: CommandNode) -> "Text":
    from rich.text import Text

    aggregate, partition, offset = node.position
    position = format_position(partition, offset)
    command = node.command or node.dead_letter
    time_text = rfc3339(node.timestamp)[11:]
    if command is None or not command.id:
        subject_message = subject_message_of(node)
        aggregate_text = f"{aggregate} {subject_message.subject or '?'}"
        return Text(
            printable(
                f"{time_text}  {aggregate_text}  command {subject_message.causation} of {position} was not found"
            ),
            "dim",
        )
    line = Text(printable(f"{time_text}  "), "dim")
    line.append(printable(f"{aggregate} {command.subject}  "))
    line.append(printable(command.type.removeprefix(f"{aggregate}.")), "bold")
    line.append(f" {_compact_text(command.data)}")
    line.append(printable(f"  id {command.id}  {position}"), "dim")
    attribution = attribution_of(command)
    if text := " by ".join(text for text in (attribution.action, attribution.actor) if text):
        line.append(printable(f"  {text}"), "yellow")
    return line


def _skip_text(skip: EventSkip) -> str:
    actor_text = f" by {skip.actor}" if skip.actor else ""
    time_text = "" if skip.time is None else f" at {rfc3339(skip.time)}"
    return f"process {skip.process}  skipped{actor_text}{time_text}"


def _drop_text(message: LinkedMessage) -> str:
    drop = read_drop_record(message.record.value)
    actor_text = f" by {drop.actor}" if drop.actor else ""
    return (
        f"dead letter  dropped{actor_text} at {rfc3339(message.record.timestamp)},"
        f" with all {counted(drop.letters, 'dead letter')} before {drop.before}"
    )


def _outcome_line(message: LinkedMessage) -> "Text":
    from rich.text import Text

    outcome = msgspec.json.decode(message.data)
    status = outcome["status"]
    reason = "  ".join(str(outcome[part]) for part in ("reason", "code", "message") if outcome.get(part))
    original = outcome.get("original")
    due_text = f"until {outcome['due']}" if "due" in outcome else ""
    original_text = f"first {original['status']} at offset {original['offset']}" if original else ""
    style = {"accepted": "green", "unchanged": "green", "duplicate": "cyan", "deferred": "yellow"}.get(
        status, "red"
    )
    line = Text(status, style)
    line.append(
        printable(
            "  ".join(
                text for text in (f"  version {outcome['version']}", due_text, original_text, reason) if text
            )
        )
    )
    return line


def _event_line(message: LinkedMessage) -> "Text":
    from rich.text import Text

    version = msgspec.json.decode(message.record.value or b"{}")["aggregateversion"]
    line = Text(f"v{version}  ")
    line.append(printable(message.type.removeprefix(f"{message.aggregate}.")), "bold")
    line.append(f" {_compact_text(message.data)}")
    return line


def _compact_text(data: bytes) -> str:
    """Return JSON on one line, other bytes unchanged."""
    try:
        data = msgspec.json.format(data, indent=-1)
    except ValueError:
        pass
    return printable(data.decode(errors="replace"))
