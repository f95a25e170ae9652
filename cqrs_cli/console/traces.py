"""Traces the messages of an id, and lists the commands to one aggregate."""

import time
from typing import Any

from cqrs_cli.client.queries.deferred import deferred_commands
from cqrs_cli.client.queries.message_trees import message_trees
from cqrs_cli.client.queries.trace import command_nodes_of, trace_messages
from cqrs_cli.client.queries.trace_document import command_document, trace_document
from cqrs_cli.console.letters import described_deferrals
from cqrs_cli.console.personal import event_codec, message_view, name_redacted
from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.following.gateway.gateway import Problem
from cqrs_cli.following.gateway.topic_reads import CancelCheck
from cqrs_cli.following.processes.skip import read_skips


def read_trace(
    project: ConsoleProject,
    aggregates: list[str],
    searched_id: str,
    since: int,
    sees_personal: bool,
    check_cancelled: CancelCheck,
) -> dict[str, Any]:
    """Return the document of `cqrs trace -o json`; raises `Problem` 404 if no message has the id."""
    codecs = {name: event_codec(project, name, sees_personal) for name in aggregates}
    try:
        result = trace_messages(
            project.connection,
            {name: project.topics(name) for name in aggregates},
            searched_id,
            since,
            lambda text: None,
            codecs,
            check_cancelled,
        )
    finally:
        for codec in codecs.values():
            codec.close()
    names = [process.name for process in project.processes]
    skips = read_skips(project.connection, names, project.settings.topic_prefix)
    messages = map(message_view(project.aggregates, sees_personal), result.messages)
    document = trace_document(message_trees(messages, skips), result, since)
    for command in document["commands"]:
        name_redacted(project.aggregates, command, sees_personal)
    if not result.messages:
        raise Problem(
            404, "nothing has this id", "search further back: ?since=7d", {"searched": document["searched"]}
        )
    return document


def read_commands(
    project: ConsoleProject,
    aggregate: str,
    aggregate_id: str,
    since: int,
    limit: int,
    sees_personal: bool,
    check_cancelled: CancelCheck,
) -> dict[str, Any]:
    """Return the newest commands to one aggregate with their results, and its deferred commands."""
    codec = event_codec(project, aggregate, sees_personal)
    topics = project.topics(aggregate)
    try:
        nodes = command_nodes_of(
            project.connection,
            topics,
            aggregate_id,
            since,
            codec,
            check_cancelled,
            message_view(project.aggregates, sees_personal),
        )
    finally:
        codec.close()
    deferrals = deferred_commands(
        project.connection, topics, project.partitioner, lambda entry: entry.subject == aggregate_id
    )
    return {
        "commands": [
            name_redacted(project.aggregates, command_document(node), sees_personal)
            for node in reversed(nodes[-limit:])
        ],
        "deferred": described_deferrals(project.aggregates[aggregate], deferrals),
        "waiting": sum(node.outcome is None for node in nodes),
        "limited": len(nodes) > limit,
        "time_ms": time.time_ns() // 1_000_000,
    }
