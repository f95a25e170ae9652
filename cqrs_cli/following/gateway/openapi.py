"""The API description (OpenAPI 3.1), generated from the aggregates' classes for generated clients in any language."""

from collections.abc import Iterable
from typing import Any

from cqrs_cli.client.command_outcome import CommandOutcome
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.json_schema import about_aggregate, components
from cqrs_cli.core.erasure import ERASE, Erase
from cqrs_cli.core.messages.attributes import HANDED_ON
from cqrs_cli.version import __version__

_ID = {"name": "id", "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
_VERSION = {"type": "integer", "minimum": 0}
_TEMPLATE = "#/components/schemas/{name}"


def describe_api(
    aggregates: Iterable[Aggregate], read_only: bool, with_token: bool, erases: bool = False
) -> dict[str, Any]:
    """Return the OpenAPI document. msgspec makes the schema names of equally named classes in two aggregates unique."""
    aggregates = list(aggregates)
    classes: list[type] = [
        kind for one in aggregates for kind in (*one.commands.values(), *one.events.values(), one.state)
    ]
    erased = {one.name for one in aggregates if erases and one.has_personal_fields and not read_only}
    classes += [CommandOutcome, Erase] if erased else [CommandOutcome]
    references, schemas = components(classes, _TEMPLATE)
    of_class: dict[type, Any] = dict(zip(classes, references, strict=True))
    paths: dict[str, Any] = {}
    for one in aggregates:
        paths |= _reads(one, of_class)
        if not read_only:
            paths |= _commands(one, of_class)
        if one.name in erased:
            paths |= _erase(one, of_class)
    security = {"bearer": {"type": "http", "scheme": "bearer"}} if with_token else {}
    return {
        "openapi": "3.1.0",
        "info": {"title": "cqrs", "version": __version__, "description": "Aggregates of a `cqrs` project."},
        "paths": paths,
        "components": {"schemas": {**schemas, "Problem": _PROBLEM}, "securitySchemes": security},
        "security": [{"bearer": []}] if with_token else [],
    }


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
_NO = {"content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}


def _query(name: str, about: str, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": kind}, "description": about}


def _header(name: str, about: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "schema": {"type": "string"}, "description": about}


def _no(about: str) -> dict[str, Any]:
    return {"description": about, **_NO}


def _yes(about: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": about, "content": {"application/json": {"schema": schema}}}


def _reads(aggregate: Aggregate, of_class: dict[type, Any]) -> dict[str, Any]:
    name = aggregate.name
    state = of_class[aggregate.state]
    return {
        f"/{name}": {"get": {**_operation(name, "list"), **_list(about_aggregate(aggregate))}},
        f"/{name}/{{id}}": {"get": {**_operation(name, "show"), **_show(_aggregate(name, state))}},
        f"/{name}/{{id}}/history": {
            "get": {**_operation(name, "history"), **_history(_aggregate(name, state))}
        },
    }


def _operation(name: str, what: str) -> dict[str, Any]:
    return {"tags": [name], "operationId": f"{name}_{what}"}


def _aggregate(name: str, state: dict[str, Any]) -> dict[str, Any]:
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
        },
    }


def _list(about: str) -> dict[str, Any]:
    one = {"type": "object", "properties": {"id": {"type": "string"}, "version": _VERSION}}
    following = {"type": ["string", "null"], "description": "For `after`, if there are more."}
    page = {
        "type": "object",
        "properties": {"aggregates": {"type": "array", "items": one}, "next": following},
    }
    return {
        "summary": "Aggregates in the order of their ids",
        "description": about,
        "parameters": [
            _query("prefix", "The beginning of the ids."),
            _query("after", "The last id of the page before."),
            _query("limit", "1 to 1000, by default 100.", "integer"),
        ],
        "responses": {
            "200": _yes("A page", page),
            "400": _no("A parameter is wrong"),
            "410": _no("The place of a stream is beyond the end of the log"),
            "503": _BUSY,
        },
    }


def _show(schema: dict[str, Any]) -> dict[str, Any]:
    return {
        "summary": "State and version, now or then",
        "parameters": [
            _ID,
            _query("at_least", "Wait until it has this version.", "integer"),
            _query("wait", "How long, like 5s."),
            _query("version", "As it was at a version.", "integer"),
            _query("at", "As it was at a time, like 2026-11-21T01:02:03Z or 2h ago."),
        ],
        "responses": {
            "200": _yes("The aggregate; its version is the ETag", schema),
            "304": {"description": "It is still at the version of If-None-Match"},
            "400": _no("A parameter is wrong"),
            "404": _no("It does not exist"),
            "410": _no("The place of a stream is beyond the end of the log"),
            "503": _BUSY,
            "504": _no("It is not at that version yet"),
        },
    }


def _history(schema: dict[str, Any]) -> dict[str, Any]:
    events = {"type": "array", "items": {"type": "object"}}
    past = {**schema, "properties": {**schema["properties"], "history": events}}
    return {
        "summary": "The aggregate with its events",
        "parameters": [_ID],
        "responses": {
            "200": _yes("Its history", past),
            "404": _no("It does not exist"),
            "413": _no("The history is too long: take its events as a stream"),
            "503": _BUSY,
        },
    }


def _commands(aggregate: Aggregate, of_class: dict[type, Any]) -> dict[str, Any]:
    names = {wire.partition(".")[2]: kind for wire, kind in aggregate.commands.items()}
    return {
        f"/{aggregate.name}/{{id}}/{name}": {
            "post": {
                **_operation(aggregate.name, name),
                "summary": f"{name}: decided once, answered with its outcome",
                **_command(of_class[kind], of_class[CommandOutcome]),
            }
        }
        for name, kind in names.items()
    }


def _erase(aggregate: Aggregate, of_class: dict[type, Any]) -> dict[str, Any]:
    about = _command(of_class[Erase], of_class[CommandOutcome])
    about["responses"]["403"] = _no("another token is needed to erase")
    summary = "The personal fields are erased, in the state and in all events"
    return {
        f"/{aggregate.name}/{{id}}/{ERASE}": {
            "post": {**_operation(aggregate.name, "erase"), "summary": summary, **about}
        }
    }


def _command(data: dict[str, Any], outcome: dict[str, Any]) -> dict[str, Any]:
    return {
        "parameters": _COMMAND_PARAMETERS,
        "requestBody": {"content": {"application/json": {"schema": data}}},
        "responses": {
            "200": _yes("accepted, unchanged, or a duplicate of those", outcome),
            "202": _yes("deferred: decided later", outcome),
            **_REFUSALS,
        },
    }


_BUSY = _no("Kafka does not answer, or too much is asked at a time: again later")

_COMMAND_PARAMETERS = [
    _ID,
    _header("If-Match", 'The version it must be at, like "7"; * for any that exists.'),
    _header("If-None-Match", "* if it must not exist."),
    _header("Idempotency-Key", "The command's id: sent again, it is decided once."),
    *(_header(name, "Handed on to events and outcome.") for name in ("Correlation-Id", *HANDED_ON)),
    _header("Prefer", "wait=5: seconds until 504, by default 10."),
]

_REFUSALS = {
    "400": _no("failed: the command is invalid"),
    "409": _no("rejected: the aggregate is at another version"),
    "413": _no("too large"),
    "415": _no("application/json is needed"),
    "422": _no("rejected by a rule"),
    "500": _no("failed: the aggregate's code raised"),
    "503": _BUSY,
    "504": _no("no outcome in time; to send it again with the same id is safe"),
}
