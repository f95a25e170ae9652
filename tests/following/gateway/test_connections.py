"""Clients that connect without a request, or read no response, block no other client and take no memory."""

import http.client
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from cqrs_cli.following.gateway.connections import protocol_of
from cqrs_cli.following.gateway.gateway import Gateway, GatewayLimits
from cqrs_cli.following.gateway.server import listen, make_server
from cqrs_cli.following.gateway.token import GatewayTokens
from tests.support.waiting import eventually


@contextmanager
def running(server: uvicorn.Server) -> Iterator[int]:
    """Run a server while the block lasts, and yield its port."""
    with listen("127.0.0.1", 0) as listening:
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        try:
            eventually(lambda: server.started)
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def gateway(**limits: Any) -> Iterator[tuple[Gateway, int]]:
    """Run a gateway without aggregates, and yield it with its port."""
    served = Gateway({}, None, GatewayLimits(**limits))
    with running(make_server(served, (), GatewayTokens())) as port:
        yield served, port


def connected(port: int, said: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(said)
    return connection


def posted(port: int, sent: int) -> socket.socket:
    """Return the connection of a POST whose body is incomplete."""
    return connected(port, b"POST /a/b/c HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n" + b"{" * sent)


def status(port: int, path: str) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


@pytest.mark.parametrize(
    "said", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nG"]
)
def test_connections_without_request_end(said: bytes) -> None:
    """The client may send the beginning of a request, also after a complete request."""
    with gateway(head_within=0.1) as (_, port), closing(connected(port, said)) as silent:
        while silent.recv(4096):
            pass


def test_newest_takes_the_idlest_place() -> None:
    with gateway(connections=3, head_within=300.0) as (_, port):
        silent = [connected(port) for _ in range(3)]
        assert status(port, "/healthz") == 200
        assert silent[0].recv(1) == b""
        for one in silent:
            one.close()


def test_requests_in_work_are_counted() -> None:
    with gateway(requests=1) as (served, port), closing(posted(port, 0)):
        eventually(lambda: served.requests == 1)
        assert status(port, "/readyz") == 503
        assert status(port, "/healthz") == 200
    assert served.requests == 0


def test_bodies_share_a_budget() -> None:
    with gateway(bodies=90) as (served, port), closing(posted(port, 50)):
        eventually(lambda: served.bodies.held == 50)
        with closing(posted(port, 50)) as second:
            assert second.recv(100).startswith(b"HTTP/1.1 503 ")
        assert served.bodies.held == 50
    assert served.bodies.held == 0


def test_clients_that_take_nothing_are_cut_off() -> None:
    ended = threading.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
        ended.set()

    config = uvicorn.Config(endless, http=protocol_of(GatewayLimits(stalled=0.1)), lifespan="off")
    with (
        running(uvicorn.Server(config)) as port,
        closing(connected(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")),
    ):
        eventually(ended.is_set)


def test_few_descriptors_are_few_connections() -> None:
    few, many = GatewayLimits().with_connections(100), GatewayLimits().with_connections(1_000_000)
    assert (few.connections, few.requests, few.streams) == (100, 80, 40)
    assert many == GatewayLimits()
