"""The ASGI application of the gateway: maps paths to handlers."""

from collections.abc import Collection
from importlib import resources
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.gateway.answers import answer_problem, document
from cqrs_cli.following.gateway.commands import post_command
from cqrs_cli.following.gateway.gateway import Gateway, Problem
from cqrs_cli.following.gateway.guard import AuthMiddleware, RequestLimit, read_body
from cqrs_cli.following.gateway.metrics import GatewayMetrics, RequestTimer
from cqrs_cli.following.gateway.openapi import describe_api
from cqrs_cli.following.gateway.reads import read_history, read_page, read_present
from cqrs_cli.following.gateway.streams import stream_events
from cqrs_cli.following.gateway.token import GatewayTokens

#: First path segments that the gateway itself uses.
RESERVED = frozenset({"healthz", "readyz", "metrics", "openapi.json"})


def make_app(gateway: Gateway, hosts: Collection[str], tokens: GatewayTokens) -> Starlette:
    """Return the ASGI application; raises `ConfigurationError` for an aggregate whose name is a path of the gateway."""
    if taken := sorted(RESERVED & gateway.followers.keys()):
        raise ConfigurationError(
            f"/{taken[0]} is a path of the gateway", f"name the others: cqrs serve …, without {taken[0]}"
        )
    metrics = GatewayMetrics(gateway.followers)
    api = describe_api(
        [follower.aggregate for follower in gateway.followers.values()],
        gateway.sender is None,
        tokens.every is not None,
        tokens.erase is not None,
    )
    page = resources.files("cqrs_cli.following.gateway").joinpath("page.html").read_text(encoding="utf-8")

    async def answer(request: Request) -> Response:
        parts = segments(request)
        if request.method == "POST":
            return await _answer_post(gateway, request, parts)
        match parts:
            case [""]:
                return _overview(gateway) if _wants(request, "application/json") else HTMLResponse(page)
            case ["healthz"]:
                return document({"alive": True})
            case ["readyz"]:
                return _readiness(gateway)
            case ["metrics"]:
                return metrics.answer()
            case ["openapi.json"]:
                return document(api)
            case [name] if _wants(request, "text/event-stream"):
                return await stream_events(gateway, request, name, None)
            case [name]:
                return await read_page(gateway, request, name)
            case [name, aggregate_id] if _wants(request, "text/event-stream"):
                return await stream_events(gateway, request, name, aggregate_id)
            case [name, aggregate_id] if aggregate_id:
                return await read_present(gateway, request, name, aggregate_id)
            case [name, aggregate_id, "history"] if aggregate_id:
                return await read_history(gateway, request, name, aggregate_id)
        raise Problem(404, "no such path", "GET /openapi.json says what there is")

    return Starlette(
        routes=[Route("/{path:path}", answer, methods=["GET", "POST"])],
        middleware=[
            Middleware(RequestTimer, metrics=metrics),
            Middleware(AuthMiddleware, hosts=hosts, tokens=tokens),
            Middleware(RequestLimit, gateway=gateway),
        ],
        exception_handlers={Problem: answer_problem, HTTPException: _answer_refusal},
    )


async def _answer_refusal(request: Request, error: Exception) -> Response:
    """Respond to Starlette's own errors, such as an unsupported method."""
    assert isinstance(error, HTTPException)
    return await answer_problem(request, Problem(error.status_code, error.detail, headers=error.headers))


async def _answer_post(gateway: Gateway, request: Request, parts: list[str]) -> Response:
    if len(parts) != 3 or not parts[1]:
        raise Problem(404, "no such path", "POST /AGGREGATE/ID/COMMAND")
    with gateway.bodies.account() as account:
        body = await read_body(request, gateway.limits, account)
        return await post_command(gateway, request, body, *parts)


def segments(request: Request) -> list[str]:
    """Return the decoded path segments; `%2F` is a slash within an id. Raises `Problem` 400 for invalid UTF-8."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    try:
        return [
            unquote(part, errors="strict") for part in raw.decode("ascii").partition("?")[0][1:].split("/")
        ]
    except UnicodeError:
        raise Problem(400, "the path is not UTF-8") from None


def _wants(request: Request, media_type: str) -> bool:
    return media_type in request.headers.get("accept", "")


def _overview(gateway: Gateway) -> Response:
    """Respond with an overview of the aggregates, for the HTML page."""
    return document(
        {
            "read_only": gateway.sender is None,
            "aggregates": {
                name: {
                    "aggregates": follower.count(),
                    "partitions": follower.partitions,
                    "commands": sorted(wire.partition(".")[2] for wire in follower.aggregate.commands),
                    "ready": follower.caught_up,
                }
                for name, follower in gateway.followers.items()
            },
        }
    )


def _readiness(gateway: Gateway) -> Response:
    waiting = {
        name: str(follower.error) if follower.error else f"{follower.lag()} offsets behind its start"
        for name, follower in gateway.followers.items()
        if not follower.caught_up
    }
    return document({"ready": not waiting, "waiting": waiting}, 503 if waiting else 200)
