"""The API description (OpenAPI 3.1), generated from the aggregates' classes for generated clients in any language."""

from collections.abc import Iterable
from typing import Any

from cqrs_cli.client.command_outcome import CommandOutcome
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.json_schema import components, module_docstring
from cqrs_cli.core.aggregate.schema import definition_name
from cqrs_cli.core.erasure import ERASE, Erase
from cqrs_cli.core.messages.attributes import PROPAGATED
from cqrs_cli.version import __version__

_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
_VERSION = {"type": "integer", "minimum": 0}
_REFERENCE_TEMPLATE = "#/components/schemas/{name}"


def describe_api(
    aggregates: Iterable[Aggregate], read_only: bool, with_token: bool, erases: bool = False
) -> dict[str, Any]:
    """Return the OpenAPI document. `erases`: a token has the right to erase, so the path of `cqrs.Erase` is included.

    Two aggregates may have classes of the same name: msgspec makes the schema names unique.
    """
    aggregates = list(aggregates)
    classes: list[type] = [
        message_class
        for aggregate in aggregates
        for message_class in (*aggregate.commands.values(), *aggregate.events.values(), aggregate.state)
    ]
    erasable_names = {
        aggregate.name
        for aggregate in aggregates
        if erases and aggregate.has_personal_fields and not read_only
    }
    classes += [CommandOutcome, Erase] if erasable_names else [CommandOutcome]
    references, schemas = components(classes, _REFERENCE_TEMPLATE)
    schema_of: dict[type, Any] = dict(zip(classes, references, strict=True))
    for aggregate in aggregates:
        _permit_null(aggregate, schemas[definition_name(schema_of[aggregate.state]["$ref"], schemas)])
    paths: dict[str, Any] = {}
    for aggregate in aggregates:
        paths |= _read_paths(aggregate, schema_of)
        if not read_only:
            paths |= _command_paths(aggregate, schema_of)
        if aggregate.name in erasable_names:
            paths |= _erase_path(aggregate, schema_of)
    security = {"bearer": {"type": "http", "scheme": "bearer"}} if with_token else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": "cqrs", "version": __version__, "description": "Aggregates of a `cqrs` project."},
        "paths": paths,
        "components": {"schemas": {**schemas, "Problem": _PROBLEM}, "securitySchemes": security},
        "security": [{"bearer": []}] if with_token else [],
    }


def _permit_null(aggregate: Aggregate, schema: dict[str, Any]) -> None:
    """Permit null in the personal fields of the state, for requests that may not see the values."""
    for field in aggregate.personal.fields_of(aggregate.state):
        properties = schema["properties"]
        properties[field.wire_name] = {"anyOf": [properties[field.wire_name], {"type": "null"}]}


_PROBLEM = {
    "type": "object",
    "description": "RFC 9457. `reason` is the outcome's, `outcome` the whole outcome, `id` the command's.",
    "required": ["title", "status"],
    "properties": {
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "reason": {"type": ["string", "null"]},
        "id": {"type": "string"},
        "outcome": {"$ref": "#/components/schemas/CommandOutcome"},
    },
}
_PROBLEM_CONTENT = {
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
}


def _query(name: str, description: str, json_type: str = "string") -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": json_type}, "description": description}


def _header(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": {"type": "string"}, "description": description}


def _problem_response(description: str) -> dict[str, Any]:
    return {"description": description, **_PROBLEM_CONTENT}


def _json_response(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _read_paths(aggregate: Aggregate, schema_of: dict[type, Any]) -> dict[str, Any]:
    name = aggregate.name
    state = schema_of[aggregate.state]
    return {
        f"/{name}": {"get": {**_operation_id(name, "list"), **_list_operation(module_docstring(aggregate))}},
        f"/{name}/{{id}}": {
            "get": {**_operation_id(name, "show"), **_state_operation(_aggregate_schema(name, state))}
        },
        f"/{name}/{{id}}/history": {
            "get": {**_operation_id(name, "history"), **_history_operation(_aggregate_schema(name, state))}
        },
    }


def _operation_id(name: str, operation: str) -> dict[str, Any]:
    return {"tags": [name], "operationId": f"{name}_{operation}"}


def _aggregate_schema(name: str, state: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an aggregate in a response."""
    return {
        "type": "object",
        "required": ["aggregate", "id", "version", "state"],
        "properties": {
            "aggregate": {"const": name},
            "id": {"type": "string"},
            "version": _VERSION,
            "state": state,
            "time": {"type": ["string", "null"], "format": "date-time"},
            "redacted": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Personal fields that are null because the request may not see their values.",
            },
        },
    }


def _list_operation(description: str) -> dict[str, Any]:
    item = {"type": "object", "properties": {"id": {"type": "string"}, "version": _VERSION}}
    next_id = {
        "type": ["string", "null"],
        "description": "The value of `after` for the next page; null on the last page.",
    }
    page = {
        "type": "object",
        "properties": {"aggregates": {"type": "array", "items": item}, "next": next_id},
    }
    return {
        "summary": "Aggregates in the order of their ids",
        "description": description,
        "parameters": [
            _query("prefix", "Prefix of the ids."),
            _query("after", "The last id of the previous page."),
            _query("limit", "1 to 1000, by default 100.", "integer"),
        ],
        "responses": {
            "200": _json_response("A page", page),
            "400": _problem_response("A parameter is invalid"),
            "410": _problem_response("The log ends before the position of a stream"),
            "503": _UNAVAILABLE,
        },
    }


def _state_operation(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "summary": "State and version, current or past",
        "parameters": [
            _ID,
            _query("at_least", "Wait until the aggregate has this version.", "integer"),
            _query("wait", "Timeout for `at_least`, such as 5s."),
            _query("version", "The state at this version.", "integer"),
            _query("at", "The state at this time, such as 2026-11-21T01:02:03Z or 2h ago."),
        ],
        "responses": {
            "200": _json_response("The aggregate; its version is the ETag", schema),
            "304": {"description": "The aggregate is still at the version in If-None-Match"},
            "400": _problem_response("A parameter is invalid"),
            "404": _problem_response("No such aggregate"),
            "410": _problem_response("The log ends before the position of a stream"),
            "503": _UNAVAILABLE,
            "504": _problem_response("The version was not reached in time"),
        },
    }


def _history_operation(schema: dict[str, Any]) -> dict[str, Any]:
    events = {"type": "array", "items": {"type": "object"}}
    with_history = {**schema, "properties": {**schema["properties"], "history": events}}
    return {
        "summary": "The aggregate with its events",
        "parameters": [_ID],
        "responses": {
            "200": _json_response("The history", with_history),
            "404": _problem_response("No such aggregate"),
            "413": _problem_response("The history is too long: read its events as a stream"),
            "503": _UNAVAILABLE,
        },
    }


def _command_paths(aggregate: Aggregate, schema_of: dict[type, Any]) -> dict[str, Any]:
    names = {wire.partition(".")[2]: message_class for wire, message_class in aggregate.commands.items()}
    return {
        f"/{aggregate.name}/{{id}}/{name}": {
            "post": {
                **_operation_id(aggregate.name, name),
                "summary": f"{name}: decided once; the response is the outcome",
                **_command_operation(schema_of[message_class], schema_of[CommandOutcome]),
            }
        }
        for name, message_class in names.items()
    }


def _erase_path(aggregate: Aggregate, schema_of: dict[type, Any]) -> dict[str, Any]:
    operation = _command_operation(schema_of[Erase], schema_of[CommandOutcome])
    operation["responses"]["403"] = _problem_response("the token has no permission to erase")
    summary = "Erase the personal fields, in the state and in all events"
    return {
        f"/{aggregate.name}/{{id}}/{ERASE}": {
            "post": {**_operation_id(aggregate.name, "erase"), "summary": summary, **operation}
        }
    }


def _command_operation(data: dict[str, Any], outcome: dict[str, Any]) -> dict[str, Any]:
    return {
        "parameters": _COMMAND_PARAMETERS,
        "requestBody": {"content": {"application/json": {"schema": data}}},
        "responses": {
            "200": _json_response("accepted or unchanged, or a duplicate of such a command", outcome),
            "202": _json_response("deferred: decided later", outcome),
            **_ERROR_RESPONSES,
        },
    }


_UNAVAILABLE = _problem_response(
    "Kafka does not respond, or there are too many requests or bytes at a time: retry later"
)

_COMMAND_PARAMETERS = [
    _ID,
    _header("If-Match", 'The expected version, such as "7"; *: the aggregate must exist.'),
    _header("If-None-Match", "*: the aggregate must not exist."),
    _header(
        "Idempotency-Key", "The command's id: a command that is sent again with this id is decided once."
    ),
    *(_header(name, "Propagated to the events and the outcome.") for name in ("Correlation-Id", *PROPAGATED)),
    _header("Prefer", "wait=5: seconds until 504, by default 10."),
    _query("dry_run", "true: respond with outcome, events and state, and send nothing.", "boolean"),
]

_ERROR_RESPONSES = {
    "400": _problem_response("failed: the command is invalid"),
    "409": _problem_response("rejected: the aggregate is at another version"),
    "413": _problem_response("too large"),
    "415": _problem_response("the body must be application/json"),
    "422": _problem_response("rejected by a business rule"),
    "500": _problem_response("failed: the aggregate's code raised"),
    "503": _UNAVAILABLE,
    "504": _problem_response("no outcome in time; sending the command again with the same id is safe"),
}
