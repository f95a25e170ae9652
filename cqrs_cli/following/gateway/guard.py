"""Access checks of each request: host name, token, and the size and duration of its body.

The Host header is checked because another site can point its own name at this gateway (DNS rebinding). Commands need
`application/json`, which pages of other sites cannot send: that needs permission by CORS, which is off.
"""

import asyncio
import hmac
from collections.abc import Collection

from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from cqrs_cli.following.gateway.gateway import RETRY_SOON, Gateway, GatewayLimits, Problem, Reservation
from cqrs_cli.following.gateway.responses import problem_response
from cqrs_cli.following.gateway.token import GatewayTokens

#: Paths without a token: the HTML page, which contains no data, and the health checks.
_OPEN_PATHS = frozenset({"/", "/healthz", "/readyz"})

#: Keys under which `AuthMiddleware` stores the request's rights in its scope.
_MAY_ERASE = "cqrs.may_erase"
_SEES_PERSONAL = "cqrs.sees_personal"


class AuthMiddleware:
    """ASGI middleware that rejects requests with a wrong host or without a valid token."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: Collection[str],
        tokens: GatewayTokens = GatewayTokens(),  # noqa: B008  (frozen)
    ) -> None:
        """`hosts`: the host names of the gateway; an empty collection allows any name."""
        self._app, self._hosts, self._tokens = app, frozenset(hosts), tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rejection = self._rejection(Request(scope)) if scope["type"] == "http" else None
        await (self._app if rejection is None else problem_response(rejection))(scope, receive, send)

    def _rejection(self, request: Request) -> Problem | None:
        name = host_name(request.headers.get("host", ""))
        if self._hosts and name not in self._hosts:
            return Problem(421, "unknown host name", f"{name[:100]!r} is not a host name of this gateway")
        tokens = self._tokens
        may_erase, may_see = _has_token(request, tokens.erase), _has_token(request, tokens.personal)
        request.scope[_MAY_ERASE], request.scope[_SEES_PERSONAL] = may_erase, may_see
        if (
            may_erase
            or may_see
            or tokens.every is None
            or (request.method in ("GET", "HEAD") and _needs_no_token(request))
        ):
            return None
        if _has_token(request, tokens.every):
            return None
        return Problem(401, "a token is required", headers={"WWW-Authenticate": 'Bearer realm="cqrs"'})


def _has_token(request: Request, token: str | None) -> bool:
    scheme, _, sent_token = request.headers.get("authorization", "").partition(" ")
    return (
        token is not None
        and scheme.lower() == "bearer"
        and hmac.compare_digest(sent_token.strip().encode(), token.encode())
    )


def may_see_personal(scope: Scope) -> bool:
    """Return True if an authenticated request may see the values of personal fields."""
    return bool(scope.get(_SEES_PERSONAL))


def require_erase_right(scope: Scope) -> None:
    """Raise `Problem` 403 if an authenticated request may not erase."""
    if not scope.get(_MAY_ERASE):
        raise Problem(403, "no permission to erase", "use the token of `cqrs serve --erase-token-file`")


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
        if gateway.requests >= gateway.limits.requests:
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
    return path in _OPEN_PATHS and not (path == "/" and wants_data)


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
    too_large = Problem(413, "too large", f"a body has at most {limits.body} bytes")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:19]) > limits.body:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_timeout):
            async for chunk in request.stream():
                reservation.reserve(len(chunk))
                body += chunk
                if len(body) > limits.body:
                    raise too_large
    except TimeoutError:
        raise Problem(408, "the body did not arrive in time") from None
    except ClientDisconnect:
        raise Problem(400, "the client disconnected") from None
    return bytes(body)
