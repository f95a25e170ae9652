"""Ports and addresses without a listener."""

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Return different free ports of this machine."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(server.getsockname()[1]) for server in servers]


def free_port() -> int:
    """Return a free port of this machine."""
    (port,) = free_ports(1)
    return port


def unused_address() -> str:
    """Return an address without a listener."""
    return f"127.0.0.1:{free_port()}"
