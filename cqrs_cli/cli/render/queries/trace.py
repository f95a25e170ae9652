"""The related records that `cqrs trace` found: as JSON, and as a tree for people."""

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


def trace_document(found: Lineage, traced: TraceResult, since: int) -> dict[str, Any]:
    return {
        "correlations": found.correlations,
        "commands": [command_document(node) for node in found.roots],
        "searched": {
            "since": rfc3339(since),
            "aggregates": traced.searched,
            "missing": list(traced.missing),
            "records": traced.records,
            "by": "aggregate" if traced.of_aggregate else "correlation",
        },
    }


def command_document(node: CommandNode) -> dict[str, Any]:
    """Return a command with its outcome, its events and the commands that it caused."""
    aggregate, partition, offset = node.position
    subject_message = node.command or next((one for one in node.messages if one.subject), node.messages[0])
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
        "dead_letter": None if node.dead_letter is None else _letter(node.dead_letter),
        "events": [_event(event) for event in node.events],
        "commands": [command_document(caused) for caused in node.commands],
    }


def _letter(message: LinkedMessage) -> dict[str, Any]:
    return {"partition": message.partition, "offset": message.record.offset, "reason": reason_of(message)}


def _event(node: EventNode) -> dict[str, Any]:
    message = node.message
    return {
        "partition": message.partition,
        "offset": message.record.offset,
        "id": message.id,
        "type": message.type,
        "data": data_of(message),
        "commands": [command_document(caused) for caused in node.commands],
    }


def searched_text(traced: TraceResult, since: int) -> str:
    """Return the searched topics and time for a message."""
    return (
        f"searched {counted(traced.records, 'record')} since {rfc3339(since)} of {', '.join(traced.searched)}"
    )


def trace_text(found: Lineage) -> "RenderableType":
    from rich.console import Group
    from rich.text import Text
    from rich.tree import Tree

    trees = {name: Tree(Text(printable(name), "bold"), guide_style="dim") for name in found.correlations}
    for node in found.roots:
        name = next(one.correlation for one in node.messages if one.correlation)
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
        for caused in event.commands:
            _add_command(event_branch, caused)
    for caused in node.commands:
        _add_command(branch, caused)


def _command_line(node: CommandNode) -> "Text":
    from rich.text import Text

    aggregate, partition, offset = node.position
    position = format_position(partition, offset)
    command = node.command or node.dead_letter
    when = rfc3339(node.time[0])[11:]
    if command is None or not command.id:
        subject_message = next((one for one in node.messages if one.subject), node.messages[0])
        about = f"{aggregate} {subject_message.subject or '?'}"
        return Text(
            printable(f"{when}  {about}  command {subject_message.causation} of {position} was not found"),
            "dim",
        )
    line = Text(printable(f"{when}  "), "dim")
    line.append(printable(f"{aggregate} {command.subject}  "))
    line.append(printable(command.type.removeprefix(f"{aggregate}.")), "bold")
    line.append(f" {_compact(command.data)}")
    line.append(printable(f"  id {command.id}  {position}"), "dim")
    return line


def _outcome_line(message: LinkedMessage) -> "Text":
    from rich.text import Text

    outcome = msgspec.json.decode(message.data)
    status = outcome["status"]
    why = "  ".join(str(outcome[part]) for part in ("reason", "code", "message") if outcome.get(part))
    original = outcome.get("original")
    due = f"until {outcome['due']}" if "due" in outcome else ""
    first = f"first {original['status']} at offset {original['offset']}" if original else ""
    style = {"accepted": "green", "unchanged": "green", "duplicate": "cyan", "deferred": "yellow"}.get(
        status, "red"
    )
    line = Text(status, style)
    line.append(
        printable("  ".join(text for text in (f"  version {outcome['version']}", due, first, why) if text))
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
