"""Writes an AsyncAPI 3 document of aggregates: their topics, and the messages in each topic."""

from collections.abc import Mapping
from typing import Any

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.aggregate.json_schema import components, module_docstring
from cqrs_cli.core.aggregate.record_schemas import command_record, event_record
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.version import __version__

_SCHEMAS = "#/components/schemas/{name}"


def asyncapi(aggregates: Mapping[str, Aggregate], prefix: str) -> dict[str, Any]:
    """Return the document of these aggregates (name → aggregate). `prefix`: the prefix of the topic names."""
    channels: dict[str, Any] = {}
    operations: dict[str, Any] = {}
    schemas: dict[str, Any] = {}
    for name, aggregate in aggregates.items():
        messages = _messages(aggregate, schemas)
        for kind, kind_messages in messages.items():
            channels[f"{name}.{kind}"] = {
                "address": getattr(Topics(name, prefix), kind),
                "messages": kind_messages,
                "bindings": {"kafka": {"bindingVersion": "0.5.0"}},
            }
        operations |= _operations(name)
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": ", ".join(aggregates),
            "version": __version__,
            "description": "\n\n".join(filter(None, map(module_docstring, aggregates.values()))),
        },
        "defaultContentType": "application/cloudevents+json",
        "channels": channels,
        "operations": operations,
        "components": {"schemas": schemas},
    }


def _messages(aggregate: Aggregate, schemas: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return kind of topic → name → message, and add the schemas of the messages' data to `schemas` under the names
    `<aggregate>.<Class>`.
    """
    template = f"#/components/schemas/{aggregate.name}.{{name}}"
    event_classes = aggregate.events | ({ERASED: Erased} if aggregate.has_personal_fields else {})
    classes = [*aggregate.commands.values(), *event_classes.values()]
    references, definitions = components(classes, template)
    schemas |= {f"{aggregate.name}.{name}": schema for name, schema in definitions.items()}
    (outcome,), outcome_definitions = components([OutcomeEnvelope], _SCHEMAS)
    schemas |= outcome_definitions
    commands = zip(aggregate.commands, references, strict=False)
    events = zip(event_classes, references[len(aggregate.commands) :], strict=True)
    return {
        "commands": {
            _short_name(wire_type): _message(wire_type, command_record(wire_type, data))
            for wire_type, data in commands
        },
        "events": {
            _short_name(wire_type): _message(wire_type, event_record(wire_type, data))
            for wire_type, data in events
        },
        "outcomes": {"outcome": _message(f"{aggregate.name} outcome", outcome)},
    }


def _short_name(wire_type: str) -> str:
    return wire_type.rpartition(".")[2]


def _message(name: str, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return an AsyncAPI message whose value has the JSON schema `payload`."""
    return {
        "name": name,
        "contentType": "application/cloudevents+json",
        "headers": {
            "type": "object",
            "required": ["content-type"],
            "properties": {"content-type": {"const": "application/cloudevents+json"}},
        },
        "payload": payload,
        "bindings": {"kafka": {"key": {"type": "string"}, "bindingVersion": "0.5.0"}},
    }


def _operations(name: str) -> dict[str, Any]:
    """Return the operations of the aggregate `name`. Their actions are seen from the owner: it receives commands, and
    sends events and outcomes.
    """

    def channel_of(kind: str) -> dict[str, str]:
        return {"$ref": f"#/channels/{name}.{kind}"}

    return {
        f"{name}.decide": {
            "action": "receive",
            "channel": channel_of("commands"),
            "summary": "Commands are decided in the order of their partition; each gets one outcome.",
            "reply": {"channel": channel_of("outcomes")},
        },
        f"{name}.publish": {
            "action": "send",
            "channel": channel_of("events"),
            "summary": "Events, kept for ever.",
        },
    }
