"""JSON Schema of whole records: the CloudEvent with its data, for AsyncAPI, Avro and Protobuf.

Add a new attribute at the end, directly before the propagated attributes: the order of the attributes gives the numbers
of the Protobuf fields, and programs were compiled with these numbers.
"""

from collections.abc import Collection, Mapping
from typing import Any

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.aggregate.json_schema import DIALECT, components
from cqrs_cli.core.aggregate.schema import without_prose
from cqrs_cli.core.messages.attributes import PROPAGATED
from cqrs_cli.core.messages.outcome import OutcomeEnvelope

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_TIME = {"type": "string", "format": "date-time"}
_PROPAGATED = dict.fromkeys(PROPAGATED, _TEXT)
#: The attributes of a payload reference. The data of a record with a reference are absent or null.
_PAYLOAD = {"dataref": _TEXT, "datasha256": _TEXT, "datasize": _COUNT}

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
    **_PAYLOAD,
    **_PROPAGATED,
}
#: The attributes that a command may omit.
_OPTIONAL = {
    "expectedversion",
    "expirytime",
    "notbefore",
    "correlationid",
    "causationid",
    *_PAYLOAD,
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
    **_PAYLOAD,
    **_PROPAGATED,
}


def command_record(wire_type: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a command record. `data`: the schema of its data."""
    return _record(wire_type, data, _COMMAND, _OPTIONAL)


def event_record(wire_type: str, data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an event record. `data`: the schema of its data."""
    return _record(wire_type, data, _EVENT, {*_PAYLOAD, *_PROPAGATED})


def _record(
    wire_type: str, data: Mapping[str, Any], attributes: Mapping[str, Any], optional: Collection[str]
) -> dict[str, Any]:
    return {
        "type": "object",
        "required": [*(name for name in attributes if name not in optional), "type"],
        "properties": {
            "type": {"const": wire_type},
            "data": {"anyOf": [data, {"type": "null"}]},
            **attributes,
        },
    }


def records_schema(aggregate: Aggregate) -> dict[str, Any]:
    """Return the JSON Schema of every record in the topics of an aggregate: `anyOf` refers to `$defs`.

    `$defs` has the data of each message by its class, such as `Deposited`, and the record as `Deposited.Record`. The
    definitions of cqrs itself begin with `cqrs.`.
    """
    classes = [*aggregate.commands.values(), *aggregate.events.values()]
    references, definitions = components(classes, "#/$defs/{name}")
    commands = dict(zip(aggregate.commands, references, strict=False))
    events = dict(zip(aggregate.events, references[len(commands) :], strict=True))
    (erased, outcome), own_definitions = components([Erased, OutcomeEnvelope], "#/$defs/cqrs.{name}")
    attributes = own_definitions["OutcomeEnvelope"]["properties"].items()
    own_definitions["OutcomeEnvelope"]["properties"] = dict(
        sorted(attributes, key=lambda item: item[0] in PROPAGATED)
    )
    definitions |= {f"cqrs.{name}": without_prose(schema) for name, schema in own_definitions.items()}
    records = {wire_type: command_record(wire_type, data) for wire_type, data in commands.items()}
    records |= {wire_type: event_record(wire_type, data) for wire_type, data in events.items()}
    if aggregate.has_personal_fields:
        records[ERASED] = event_record(ERASED, erased)
    names = {f"{wire_type.removeprefix(f'{aggregate.name}.')}.Record": wire_type for wire_type in records}
    definitions |= {name: records[wire_type] for name, wire_type in names.items()}
    return {
        "$schema": DIALECT,
        "title": aggregate.name,
        "anyOf": [*({"$ref": f"#/$defs/{name}"} for name in names), outcome],
        "$defs": definitions,
    }
