"""Writes an AsyncAPI 3 document of aggregates: their topics, and the messages in each topic."""

from collections.abc import Collection, Mapping
from typing import Any

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.aggregate.json_schema import components, module_docstring
from cqrs_cli.core.messages.attributes import PROPAGATED
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.version import __version__

_SCHEMAS = "#/components/schemas/{name}"
_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_TIME = {"type": "string", "format": "date-time"}
_PROPAGATED = dict.fromkeys(PROPAGATED, _TEXT)

#: The attributes of a command besides type and data, as in docs/messages.md.
_COMMAND = {
    "specversion": {"const": "1.0"},
    "id": {**_TEXT, "minLength": 1, "description": "The idempotency key."},
    "source": {**_TEXT, "minLength": 1},
    "subject": {**_TEXT, "minLength": 1, "description": "The aggregate id; the record's key is the same."},
    "expectedversion": {"type": ["string", "integer", "null"], "description": "any, none, exists, N or >=N."},
    "expirytime": _TIME,
    "notbefore": _TIME,
    "correlationid": _TEXT,
    "causationid": _TEXT,
    **_PROPAGATED,
}
#: The attributes that a command may omit.
_OPTIONAL = {
    "expectedversion",
    "expirytime",
    "notbefore",
    "correlationid",
    "causationid",
    *_PROPAGATED,
}

_EVENT = {
    "specversion": {"const": "1.0"},
    "id": {**_TEXT, "description": "Partition, offset and index of the command: unique in the topic."},
    "source": _TEXT,
    "subject": {**_TEXT, "description": "The aggregate id."},
    "time": _TIME,
    "causationid": {**_TEXT, "description": "The command's id."},
    "correlationid": _TEXT,
    "aggregateversion": {"type": "integer", "minimum": 1},
    "eventindex": _COUNT,
    "eventcount": {"type": "integer", "minimum": 1},
    **_PROPAGATED,
}


def asyncapi(aggregates: Mapping[str, Aggregate], prefix: str) -> dict[str, Any]:
    """Return the document; `prefix` is the prefix of the topic names."""
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
    """Return the messages by topic, and add the schemas of their data to `schemas` as `<aggregate>.<Class>`."""
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
            _short_name(wire_type): _message(wire_type, _schema(wire_type, data, _COMMAND, _OPTIONAL))
            for wire_type, data in commands
        },
        "events": {
            _short_name(wire_type): _message(wire_type, _schema(wire_type, data, _EVENT, _PROPAGATED))
            for wire_type, data in events
        },
        "outcomes": {"outcome": _message(f"{aggregate.name} outcome", outcome)},
    }


def _short_name(wire_type: str) -> str:
    return wire_type.rpartition(".")[2]


def _schema(
    wire_type: str, data: Mapping[str, Any], attributes: Mapping[str, Any], optional: Collection[str] = ()
) -> dict[str, Any]:
    """Return the JSON schema of a CloudEvent of this type."""
    return {
        "type": "object",
        "required": [*(name for name in attributes if name not in optional), "type"],
        "properties": {**attributes, "type": {"const": wire_type}, "data": data},
    }


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
    """Return the operations. In AsyncAPI the application receives commands, and sends events and outcomes."""

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
