"""The output of `cqrs trace`: related messages as JSON, and as a tree for people."""

from typing import TYPE_CHECKING, Any

import msgspec

from cqrs_cli.cli.output import printable
from cqrs_cli.client.queries.lineage import CommandNode, EventNode, Lineage
from cqrs_cli.client.queries.messages import LinkedMessage, data_of, reason_of
from cqrs_cli.client.queries.trace import TraceResult
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.formatting import counted
from cqrs_cli.kafka.position_notation import format_position

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.text import Text
    from rich.tree import Tree


def trace_document(lineage: Lineage, result: TraceResult, since: int) -> dict[str, Any]:
    return {
        "correlations": lineage.correlations,
        "commands": [command_document(node) for node in lineage.roots],
        "searched": {
            "since": rfc3339(since),
            "aggregates": result.searched,
            "missing": list(result.missing),
            "records": result.records,
            "by": "aggregate" if result.of_aggregate else "correlation",
        },
    }


def command_document(node: CommandNode) -> dict[str, Any]:
    """Return a command with its outcome, its events and the commands that it caused."""
    aggregate, partition, offset = node.position
    subject_message = node.command or _subject_message(node)
    command = node.command or node.dead_letter
    return {
        "aggregate": aggregate,
        "partition": partition,
        "offset": offset,
        "time": rfc3339(node.time[0]),
        "subject": subject_message.subject or None,
        "id": (command.id if command else subject_message.causation) or None,
        "type": (command.type if command else "") or None,
        "causationid": (command.causation if command else "") or None,
        "correlationid": subject_message.correlation or None,
        "data": data_of(command) if command and command.id else None,
        "outcome": None if node.outcome is None else data_of(node.outcome),
        "dead_letter": None if node.dead_letter is None else _letter_document(node.dead_letter),
        "events": [_event_document(event) for event in node.events],
        "commands": [command_document(caused_node) for caused_node in node.commands],
    }


def _subject_message(node: CommandNode) -> LinkedMessage:
    """Return the first message of the node that names the aggregate's id, else its first message."""
    return next((message for message in node.messages if message.subject), node.messages[0])


def _letter_document(message: LinkedMessage) -> dict[str, Any]:
    return {"partition": message.partition, "offset": message.record.offset, "reason": reason_of(message)}


def _event_document(node: EventNode) -> dict[str, Any]:
    message = node.message
    return {
        "partition": message.partition,
        "offset": message.record.offset,
        "id": message.id,
        "type": message.type,
        "data": data_of(message),
        "commands": [command_document(caused_node) for caused_node in node.commands],
    }


def searched_text(result: TraceResult, since: int) -> str:
    """Return a text for messages: how many records of which aggregates were searched, and since when."""
    return (
        f"searched {counted(result.records, 'record')} since {rfc3339(since)} of {', '.join(result.searched)}"
    )


def trace_text(lineage: Lineage) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text
    from rich.tree import Tree

    trees = {name: Tree(Text(printable(name), "bold"), guide_style="dim") for name in lineage.correlations}
    for node in lineage.roots:
        name = next(message.correlation for message in node.messages if message.correlation)
        _add_command(trees[name], node)
    return Group(*(tree for tree in trees.values() if tree.children))


def _add_command(tree: "Tree", node: CommandNode) -> None:
    from rich.text import Text

    branch = tree.add(_command_line(node))
    if node.outcome is not None:
        branch.add(_outcome_line(node.outcome))
    elif node.command is not None:
        branch.add(Text("no outcome yet", "dim"))
    if node.dead_letter is not None:
        branch.add(Text(printable(f"dead letter  {reason_of(node.dead_letter)}"), "yellow"))
    for event in node.events:
        event_branch = branch.add(_event_line(event.message))
        for caused_node in event.commands:
            _add_command(event_branch, caused_node)
    for caused_node in node.commands:
        _add_command(branch, caused_node)


def _command_line(node: CommandNode) -> "Text":
    from rich.text import Text

    aggregate, partition, offset = node.position
    position = format_position(partition, offset)
    command = node.command or node.dead_letter
    time_text = rfc3339(node.time[0])[11:]
    if command is None or not command.id:
        subject_message = _subject_message(node)
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
    line.append(f" {_compact(command.data)}")
    line.append(printable(f"  id {command.id}  {position}"), "dim")
    return line


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
    line.append(f" {_compact(message.data)}")
    return line


def _compact(data: bytes) -> str:
    """Return JSON on one line, other bytes unchanged."""
    try:
        data = msgspec.json.format(data, indent=-1)
    except ValueError:
        pass
    return printable(data.decode(errors="replace"))
