"""Access checks of each request: host name, token, and the size and duration of its body.

The Host header is checked because another site can point its own name at this gateway (DNS rebinding). The body of a
command must be `application/json`: browsers ask before a page of another site may send this type (CORS), and the
gateway does not permit it.
"""

import asyncio
from collections.abc import Collection

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from cqrs_cli.following.gateway.gateway import RETRY_SOON, Gateway, GatewayLimits, Problem, Reservation
from cqrs_cli.following.gateway.responses import problem_response
from cqrs_cli.following.gateway.token import LOCAL_ACCESS, NO_TOKENS, Access, Tokens, find_access

#: Paths without a token: the console's files, which contain no data, and the health checks.
_OPEN_PATHS = frozenset({"/", "/healthz", "/readyz"})
_OPEN_FOLDER = "/assets/"

#: The key under which `AuthMiddleware` stores the request's access in its scope.
_ACCESS = "cqrs.access"


class AuthMiddleware:
    """ASGI middleware that rejects requests with a wrong host or without a valid token."""

    def __init__(self, app: ASGIApp, hosts: Collection[str], tokens: Tokens = NO_TOKENS) -> None:
        """`hosts`: the host names of the gateway; an empty collection allows any name."""
        self._app, self._hosts, self._tokens = app, frozenset(hosts), tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rejection = self._rejection(Request(scope)) if scope["type"] == "http" else None
        await (self._app if rejection is None else problem_response(rejection))(scope, receive, send)

    def _rejection(self, request: Request) -> Problem | None:
        name = host_name(request.headers.get("host", ""))
        if self._hosts and name not in self._hosts:
            return Problem(421, "unknown host name", f"{name[:100]!r} is not a host name of this gateway")
        if not self._tokens:
            request.scope[_ACCESS] = LOCAL_ACCESS
            return None
        access = find_access(self._tokens, _sent_token(request))
        if access is not None:
            request.scope[_ACCESS] = access
            return None
        if request.method in ("GET", "HEAD") and _needs_no_token(request):
            return None
        return Problem(401, "a token is required", headers={"WWW-Authenticate": 'Bearer realm="cqrs"'})


def _sent_token(request: Request) -> str:
    scheme, _, sent_token = request.headers.get("authorization", "").partition(" ")
    return sent_token.strip() if scheme.lower() == "bearer" else ""


def access_of(scope: Scope) -> Access:
    """Return the access of an authenticated request; a request to an open path has no rights."""
    return scope.get(_ACCESS) or Access(frozenset())


def may_see_personal(scope: Scope) -> bool:
    """Return True if an authenticated request may see the values of personal fields."""
    return "personal" in access_of(scope).rights


def require_right(scope: Scope, right: str) -> None:
    """Raise `Problem` 403 if an authenticated request does not have this right."""
    if right not in access_of(scope).rights:
        raise Problem(
            403, f"no right to {right}", f"the token's line in `cqrs serve --token-file` needs `{right}`"
        )


class RequestLimit:
    """ASGI middleware that limits concurrent requests, except `/healthz`.

    It comes after `AuthMiddleware`, so unauthorized requests do not count.
    """

    def __init__(self, app: ASGIApp, gateway: Gateway) -> None:
        self._app, self._gateway = app, gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gateway = self._gateway
        if scope["type"] != "http" or scope["path"] == "/healthz":
            return await self._app(scope, receive, send)
        if gateway.requests >= gateway.limits.max_requests:
            problem = Problem(503, "too many concurrent requests", headers=RETRY_SOON)
            return await problem_response(problem)(scope, receive, send)
        gateway.requests += 1
        try:
            await self._app(scope, receive, send)
        finally:
            gateway.requests -= 1


def _needs_no_token(request: Request) -> bool:
    wants_data = "application/json" in request.headers.get("accept", "")
    path = request.scope["path"]  # `request.url` contains the Host header, which clients may choose freely
    return path.startswith(_OPEN_FOLDER) or (path in _OPEN_PATHS and not (path == "/" and wants_data))


def host_name(header: str) -> str:
    """Return the host name in a Host header, without port and brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.partition(":")[0].lower()


async def read_body(request: Request, limits: GatewayLimits, reservation: Reservation) -> bytes:
    """Read the whole body and add its size to `reservation`.

    Raises `Problem` 413 for a body that is too large, 408 for a body that is too slow, and 503 if all bodies together
    are too large.
    """
    too_large = Problem(413, "too large", f"a body has at most {limits.body_bytes} bytes")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:19]) > limits.body_bytes:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_timeout):
            async for chunk in request.stream():
                reservation.reserve(len(chunk))
                body += chunk
                if len(body) > limits.body_bytes:
                    raise too_large
    except TimeoutError:
        raise Problem(408, "the body did not arrive in time") from None
    except ClientDisconnect:
        raise Problem(400, "the client disconnected") from None
    return bytes(body)


def require_json(request: Request) -> None:
    """Raise `Problem` 415 unless the body is declared as JSON. Pages of other sites cannot declare this type."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, "the body must be application/json")
