"""Related messages as JSON, for `cqrs trace -o json`, `cqrs demo` and the console."""

from typing import Any

import msgspec

from cqrs_cli.client.envelope import NO_ATTRIBUTION, Attribution
from cqrs_cli.client.queries.message_trees import CommandNode, EventNode, EventSkip, MessageTrees
from cqrs_cli.client.queries.messages import LinkedMessage, data_of, reason_of
from cqrs_cli.client.queries.trace import TraceResult
from cqrs_cli.core.messages.command import binary_attributes
from cqrs_cli.core.messages.drop_record import read_drop_record
from cqrs_cli.core.messages.reasons import CheckFailed
from cqrs_cli.core.messages.timestamps import rfc3339


def trace_document(trees: MessageTrees, result: TraceResult, since: int) -> dict[str, Any]:
    """Return a trace as a JSON document. `since`: the time (ms) from which on records were read."""
    return {
        "correlations": trees.correlations,
        "commands": [command_document(node) for node in trees.roots],
        "searched": {
            "since": rfc3339(since),
            "aggregates": result.searched_aggregates,
            "missing": list(result.missing_topic_errors),
            "records": result.record_count,
            "by": "aggregate" if result.is_aggregate_id else "correlation",
        },
    }


def command_document(node: CommandNode) -> dict[str, Any]:
    """Return a command as a JSON document, with its outcome, its events and the commands that it caused."""
    aggregate, partition, offset = node.position
    subject_message = node.command or subject_message_of(node)
    command = node.command or node.dead_letter
    return {
        "aggregate": aggregate,
        "partition": partition,
        "offset": offset,
        "time": rfc3339(node.timestamp),
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
        **({} if node.drop is None else {"dropped": _drop_document(node.drop)}),
        **({} if node.command is None else attribution_of(node.command).members()),
    }


def attribution_of(command: LinkedMessage) -> Attribution:
    """Return who sent a command, and for which action of an operator; a text is empty if the record lacks it."""
    try:
        attributes = binary_attributes(command.record)
        if attributes is None:
            return Attribution(*msgspec.structs.astuple(_decode_attribution(command.record.value or b"")))
        return Attribution(attributes.get("actor", ""), attributes.get("action", ""))
    except (ValueError, RecursionError, CheckFailed):  # malformed
        return NO_ATTRIBUTION


class _Attribution(msgspec.Struct):
    actor: str = ""
    action: str = ""


_decode_attribution = msgspec.json.Decoder(_Attribution).decode


def subject_message_of(node: CommandNode) -> LinkedMessage:
    """Return the first message of the node that names the aggregate's id, else its first message."""
    return next((message for message in node.messages if message.subject), node.messages[0])


def _letter_document(message: LinkedMessage) -> dict[str, Any]:
    return {"partition": message.partition, "offset": message.record.offset, "reason": reason_of(message)}


def _drop_document(message: LinkedMessage) -> dict[str, Any]:
    drop = read_drop_record(message.record.value)
    return {
        "partition": message.partition,
        "offset": message.record.offset,
        "time": rfc3339(message.record.timestamp),
        "actor": drop.actor or None,
        "before": drop.before,
        "dead_letters": drop.letters,
    }


def _event_document(node: EventNode) -> dict[str, Any]:
    message = node.message
    return {
        "partition": message.partition,
        "offset": message.record.offset,
        "id": message.id,
        "type": message.type,
        "data": data_of(message),
        "commands": [command_document(caused_node) for caused_node in node.commands],
        **({"skipped": [_skip_document(skip) for skip in node.skips]} if node.skips else {}),
    }


def _skip_document(skip: EventSkip) -> dict[str, Any]:
    time = None if skip.time is None else rfc3339(skip.time)
    return {"process": skip.process, "actor": skip.actor or None, "time": time}
