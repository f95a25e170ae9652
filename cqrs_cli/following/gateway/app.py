"""The ASGI application of the gateway: maps paths to handlers."""

from collections.abc import Collection
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.gateway.assets import Assets
from cqrs_cli.following.gateway.commands import handle_command
from cqrs_cli.following.gateway.gateway import ConsoleHandler, Gateway, Problem
from cqrs_cli.following.gateway.guard import AuthMiddleware, RequestLimit, read_body
from cqrs_cli.following.gateway.metrics import GatewayMetrics, RequestTimer
from cqrs_cli.following.gateway.openapi import describe_api
from cqrs_cli.following.gateway.reads import handle_history, handle_list, handle_state
from cqrs_cli.following.gateway.responses import json_response, problem_handler
from cqrs_cli.following.gateway.streams import handle_stream
from cqrs_cli.following.gateway.token import Tokens


class _AnyPathConvertor(PathConvertor):
    """Matches any path. Starlette's own convertor rejects line ends, but an aggregate's id may contain them."""

    regex = "(?s:.*)"


register_url_convertor("any", _AnyPathConvertor())

#: First path segments that cannot be names of aggregates, because the gateway uses them itself.
RESERVED_PATHS = frozenset({"api", "assets", "healthz", "readyz", "metrics", "openapi.json"})


def make_app(
    gateway: Gateway, hosts: Collection[str], tokens: Tokens, console: ConsoleHandler | None = None
) -> Starlette:
    """Return the ASGI application. `console`: handles the paths of the console; None: there is no console.

    Raises `ConfigurationError` for an aggregate whose name is a path of the gateway.
    """
    if reserved := sorted(RESERVED_PATHS & gateway.followers.keys()):
        raise ConfigurationError(
            f"/{reserved[0]} is a path of the gateway",
            f"serve only the other aggregates: cqrs serve …, without {reserved[0]}",
        )
    metrics = GatewayMetrics(gateway.followers)
    api = describe_api(
        [follower.aggregate for follower in gateway.followers.values()],
        gateway.sender is None,
        bool(tokens),
        any("erase" in access.rights for access in tokens.values()),
    )
    if console is not None:
        api["paths"] |= console.api_paths
    assets = Assets()

    async def handle(request: Request) -> Response:
        parts = segments(request)
        if parts[0] == "api" and console is not None:
            return await console.handle(gateway, request, parts[1:])
        if request.method == "POST":
            return await _handle_post(gateway, request, parts)
        match parts:
            case [""]:
                if _wants(request, "application/json"):
                    return _overview_response(gateway)
                return assets.response(request, "index.html")
            case ["assets", *path]:
                return assets.response(request, "/".join(path))
            case ["healthz"]:
                return json_response({"alive": True})
            case ["readyz"]:
                return _readiness_response(gateway)
            case ["metrics"]:
                return metrics.response()
            case ["openapi.json"]:
                return json_response(api)
        return await _handle_aggregates(gateway, request, parts)

    return Starlette(
        routes=[Route("/{path:any}", handle, methods=["GET", "POST"])],
        middleware=[
            Middleware(RequestTimer, metrics=metrics),
            Middleware(AuthMiddleware, hosts=hosts, tokens=tokens),
            Middleware(RequestLimit, gateway=gateway),
        ],
        exception_handlers={Problem: problem_handler, HTTPException: _http_error_handler},
    )


async def _http_error_handler(request: Request, error: Exception) -> Response:
    """Respond to Starlette's own errors, such as an unsupported method."""
    assert isinstance(error, HTTPException)
    return await problem_handler(request, Problem(error.status_code, error.detail, headers=error.headers))


async def _handle_aggregates(gateway: Gateway, request: Request, parts: list[str]) -> Response:
    match parts:
        case [name] if _wants(request, "text/event-stream"):
            return await handle_stream(gateway, request, name, None)
        case [name]:
            return await handle_list(gateway, request, name)
        case [name, aggregate_id] if _wants(request, "text/event-stream"):
            return await handle_stream(gateway, request, name, aggregate_id)
        case [name, aggregate_id] if aggregate_id:
            return await handle_state(gateway, request, name, aggregate_id)
        case [name, aggregate_id, "history"] if aggregate_id:
            return await handle_history(gateway, request, name, aggregate_id)
    raise Problem(404, "no such path", "GET /openapi.json lists the paths")


async def _handle_post(gateway: Gateway, request: Request, parts: list[str]) -> Response:
    if len(parts) != 3 or not parts[1]:
        raise Problem(404, "no such path", "POST /AGGREGATE/ID/COMMAND")
    with gateway.body_budget.reservation() as reservation:
        body = await read_body(request, gateway.limits, reservation)
        return await handle_command(gateway, request, body, *parts)


def segments(request: Request) -> list[str]:
    """Return the decoded path segments; `%2F` is a slash within an id. Raises `Problem` 400 for invalid UTF-8."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    try:
        return [
            unquote(part, errors="strict") for part in raw.decode("ascii").partition("?")[0][1:].split("/")
        ]
    except UnicodeError:
        raise Problem(400, "the path is not valid UTF-8") from None


def _wants(request: Request, media_type: str) -> bool:
    return media_type in request.headers.get("accept", "")


def _overview_response(gateway: Gateway) -> Response:
    """Respond with an overview of the aggregates, for the HTML page."""
    return json_response(
        {
            "read_only": gateway.sender is None,
            "aggregates": {
                name: {
                    "aggregates": follower.aggregate_count(),
                    "partitions": follower.partition_count,
                    "commands": sorted(wire.partition(".")[2] for wire in follower.aggregate.commands),
                    "ready": follower.is_caught_up,
                }
                for name, follower in gateway.followers.items()
            },
        }
    )


def _readiness_response(gateway: Gateway) -> Response:
    waiting = {
        name: str(follower.error)
        if follower.error
        else f"{follower.lag()} offsets of the events at its start are not folded yet"
        for name, follower in gateway.followers.items()
        if not follower.is_caught_up
    }
    return json_response({"ready": not waiting, "waiting": waiting}, 503 if waiting else 200)
