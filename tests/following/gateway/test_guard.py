"""The token is required for any host name that a request uses for the gateway."""

import asyncio
from collections.abc import MutableMapping
from typing import Any

import pytest
from starlette.responses import Response

from cqrs_cli.following.gateway.guard import AuthMiddleware
from cqrs_cli.following.gateway.token import Access


def status(path: str, host: bytes, method: str = "GET") -> int:
    """Return the status of a request without a token."""
    scope = {
        "type": "http",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", host)],
        "server": ("127.0.0.1", 80),
    }
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request"}

    asyncio.run(AuthMiddleware(Response("secret"), (), {"token": Access()})(scope, receive, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize("host", [b"x", b"x/healthz?", b"x/healthz#", b"x/?", b"", b"/healthz", b"["])
def test_host_header_opens_no_path(host: bytes) -> None:
    """Starlette before 1.0.1 builds the path of `request.url` from the Host header (CVE-2026-48710)."""
    assert status("/bank_account", host) == 401
    assert status("/healthz", host) == 200


@pytest.mark.parametrize("path", ["/", "/healthz", "/readyz", "/assets/main.js"])
@pytest.mark.parametrize(("method", "expected"), [("GET", 200), ("HEAD", 200), ("POST", 401)])
def test_open_paths_need_no_token(path: str, method: str, expected: int) -> None:
    assert status(path, b"x", method) == expected
