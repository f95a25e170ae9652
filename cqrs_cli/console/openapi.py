"""The description of the console's paths in the gateway's OpenAPI document."""

from typing import Any

_JSON_OBJECT = {"application/json": {"schema": {"type": "object"}}}
_STREAM = {"text/event-stream": {"schema": {"type": "string"}}}
_PROBLEM = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}

_AGGREGATES = ("aggregate", "Only this aggregate; repeatable. Default: all.")
_SINCE = ("since", "Only records since this time: 7d ago, or a time.")
_LIMIT = ("limit", "1 to 1000.")
_COMMAND_FILTER = (
    ("aggregate", "The aggregate's name; required."),
    ("id", "Only the command with this id."),
    ("aggregate_id", "Only commands for this aggregate id."),
    ("type", "Only this command; repeatable."),
)


def _get(
    operation: str,
    summary: str,
    *parameters: tuple[str, str],
    content: dict[str, Any] = _JSON_OBJECT,
    description: str = "",
) -> dict[str, Any]:
    described = {"description": description} if description else {}
    return {
        "get": {
            "tags": ["console"],
            "operationId": f"console_{operation}",
            "summary": summary,
            **described,
            "parameters": [
                {"name": name, "in": "query", "schema": {"type": "string"}, "description": text}
                for name, text in parameters
            ],
            "responses": {
                "200": {"description": summary, "content": content},
                "default": {"description": "An error", "content": _PROBLEM},
            },
        }
    }


def _post(operation: str, summary: str, *filters: str) -> dict[str, Any]:
    """Describe an action. `filters`: the members of its body besides `aggregate`."""
    properties = {name: schema for name, schema in _BODY.items() if name in ("aggregate", *filters)}
    body = {"type": "object", "required": ["aggregate"], "properties": properties}
    result = {
        "description": "The result, or the preview with `count` and `selection`",
        "content": _JSON_OBJECT,
    }
    return {
        "post": {
            "tags": ["console"],
            "operationId": f"console_{operation}",
            "summary": summary,
            "description": "The token needs the right `operate`.",
            "parameters": [
                {
                    "name": "dry_run",
                    "in": "query",
                    "schema": {"type": "boolean"},
                    "description": "true: respond with a preview, and change nothing.",
                }
            ],
            "requestBody": {"content": {"application/json": {"schema": body}}},
            "responses": {
                "200": result,
                "409": {
                    "description": "The filters select other commands than in the preview",
                    "content": _PROBLEM,
                },
                "default": {"description": "An error", "content": _PROBLEM},
            },
        }
    }


_TEXTS = {"type": "array", "items": {"type": "string"}}
_BODY: dict[str, Any] = {
    "aggregate": {"type": "string"},
    "id": {"type": "string", "description": "Only the command with this id."},
    "aggregate_id": {"type": "string", "description": "Only commands for this aggregate id."},
    "types": {**_TEXTS, "description": "Only these commands."},
    "reasons": {**_TEXTS, "description": "Only dead letters for these reasons."},
    "reason": {"enum": ["NOT_YET", "LATER"], "description": "Only commands deferred for this reason."},
    "since": {"type": "string", "description": "Only dead letters since this time."},
    "before": {"type": "string", "description": "Only dead letters, or due times, before this time."},
    "all": {"type": "boolean", "description": "true: all, without a filter."},
    "selection": {
        "type": "string",
        "description": "`selection` of the preview: if the filters select other commands now, the response is 409.",
    },
    "process": {"type": "string", "description": "The process manager; required."},
    "partition": {"type": "integer", "description": "The partition of the event; required."},
    "offset": {"type": "integer", "description": "The offset of the event that stopped it; required."},
}
_LETTER_FILTERS = ("id", "aggregate_id", "types", "reasons", "since", "before", "all", "selection")
_DEFERRAL_FILTERS = ("id", "aggregate_id", "types", "reason", "before", "all", "selection")

#: Path → operations.
CONSOLE_PATHS: dict[str, Any] = {
    "/api/session": _get("session", "The aggregates and process managers that are served"),
    "/api/overview": _get(
        "overview",
        "The status of all partitions, counts of outcomes, and problems with their remedies",
        ("changes", "true: the stream has events `changes`, too."),
        content={**_JSON_OBJECT, **_STREAM},
        description="With `Accept: text/event-stream` an event `overview` with the whole document follows each poll. "
        "With `changes=true`, most events are `changes`. Such an event has the changed members of the document, and in "
        "`partitions` only the changed partitions; `topic` and `partition` name a partition. The first event, and the "
        "first after partitions were added or removed, is `overview`.",
    ),
    "/api/recent": _get(
        "recent",
        "Rates, lag and age of the last fifteen minutes, by aggregate and process manager",
        ("since_ms", "Only points after this time, in ms since 1970."),
    ),
    "/api/search": _get(
        "search",
        "Ids with a prefix, and records that contain a text",
        ("q", "The prefix, the id of a command or correlation, or any text; required."),
        _SINCE,
        ("until", "Only records before this time."),
        _AGGREGATES,
        _LIMIT,
        content=_STREAM,
        description="Server-sent events `aggregate`, `record`, `progress`, and at last `end`.",
    ),
    "/api/trace": _get(
        "trace",
        "The messages of a correlation, a command or an aggregate, as `cqrs trace -o json`",
        ("id", "The id of a correlation, a command or an aggregate; required."),
        _SINCE,
        _AGGREGATES,
    ),
    "/api/commands": _get(
        "commands",
        "The commands to one aggregate, the newest first, with their results",
        ("aggregate", "The aggregate's name; required."),
        ("id", "The aggregate's id; required."),
        _SINCE,
        _LIMIT,
    ),
    "/api/dead-letters": _get(
        "dead_letters",
        "Dead letters, the oldest first, as `cqrs dead-letters list -o json`",
        *_COMMAND_FILTER,
        ("reason", "Only for this reason; repeatable."),
        _SINCE,
        ("before", "Only dead letters before this time."),
        ("open", "true: only the last dead letter of each command without a later decision."),
        _LIMIT,
    ),
    "/api/deferred": _get(
        "deferred",
        "Deferred commands by due time, as `cqrs deferred list -o json`",
        *_COMMAND_FILTER,
        ("reason", "NOT_YET or LATER."),
        ("before", "Only commands due before this time: 1h from now, or a time."),
        _LIMIT,
    ),
    "/api/processes": _get("processes", "The positions of the process managers, and where they stopped"),
    "/api/projections": _get("projections", "The positions of the projections in their database"),
    "/api/model": _get("model", "JSON Schema of all aggregates, as `cqrs describe -o json`"),
    "/api/dead-letters/retry": _post(
        "retry", "Send the commands of open dead letters again", *_LETTER_FILTERS
    ),
    "/api/dead-letters/drop": _post("drop", "Delete the oldest dead letters", "before", "selection"),
    "/api/deferred/release": _post(
        "release", "Release deferred commands, to be decided now", *_DEFERRAL_FILTERS
    ),
    "/api/deferred/cancel": _post("cancel", "Cancel deferred commands", *_DEFERRAL_FILTERS),
    "/api/processes/skip": _post(
        "skip", "Skip the event that stopped a process manager", "process", "partition", "offset"
    ),
}
