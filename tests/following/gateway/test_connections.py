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

from cqrs_cli.following.gateway.connections import make_protocol_class
from cqrs_cli.following.gateway.gateway import Gateway, GatewayLimits
from cqrs_cli.following.gateway.server import listen, make_server
from cqrs_cli.following.gateway.token import NO_TOKENS
from tests.support.waiting import eventually


@contextmanager
def running_server(server: uvicorn.Server) -> Iterator[int]:
    """Run a server while the block lasts, and yield its port."""
    with listen("127.0.0.1", 0) as listener:
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        try:
            eventually(lambda: server.started)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@contextmanager
def empty_gateway(**limits: Any) -> Iterator[tuple[Gateway, int]]:
    """Run a gateway without aggregates, and yield it with its port."""
    gateway = Gateway({}, None, GatewayLimits(**limits))
    with running_server(make_server(gateway, (), NO_TOKENS)) as port:
        yield gateway, port


def connect(port: int, data: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=20)
    connection.sendall(data)
    return connection


def start_post(port: int, sent: int) -> socket.socket:
    """Return the connection of a POST whose body is incomplete."""
    return connect(port, b"POST /a/b/c HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n" + b"{" * sent)


def status(port: int, path: str) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


@pytest.mark.parametrize(
    "sent_bytes", [b"", b"GET / HTTP/1.1\r\nHost: x\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nG"]
)
def test_connections_without_request_end(sent_bytes: bytes) -> None:
    """The gateway disconnects a client that sends no request, half of one, or half of a second one."""
    with empty_gateway(head_timeout=0.1) as (_, port), closing(connect(port, sent_bytes)) as idle:
        while idle.recv(4096):
            pass


def test_new_connection_replaces_the_idlest() -> None:
    with empty_gateway(max_connections=3, head_timeout=300.0) as (_, port):
        idle = [connect(port) for _ in range(3)]
        assert status(port, "/healthz") == 200
        assert idle[0].recv(1) == b""
        for connection in idle:
            connection.close()


def test_running_requests_are_counted() -> None:
    with empty_gateway(max_requests=1) as (gateway, port), closing(start_post(port, 0)):
        eventually(lambda: gateway.requests == 1)
        assert status(port, "/readyz") == 503
        assert status(port, "/healthz") == 200
    assert gateway.requests == 0


def test_bodies_share_a_budget() -> None:
    with empty_gateway(total_body_bytes=90) as (gateway, port), closing(start_post(port, 50)):
        eventually(lambda: gateway.body_budget.reserved == 50)
        with closing(start_post(port, 50)) as second:
            assert second.recv(100).startswith(b"HTTP/1.1 503 ")
        assert gateway.body_budget.reserved == 50
    assert gateway.body_budget.reserved == 0


def test_clients_that_read_nothing_are_disconnected() -> None:
    has_ended = threading.Event()

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": bytes(100_000), "more_body": True})
        has_ended.set()

    config = uvicorn.Config(
        endless, http=make_protocol_class(GatewayLimits(stall_timeout=0.1)), lifespan="off"
    )
    with (
        running_server(uvicorn.Server(config)) as port,
        closing(connect(port, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")),
    ):
        eventually(has_ended.is_set)


def test_few_descriptors_are_few_connections() -> None:
    few, many = GatewayLimits().with_connections(100), GatewayLimits().with_connections(1_000_000)
    assert (few.max_connections, few.max_requests, few.max_streams) == (100, 80, 40)
    assert many == GatewayLimits()
