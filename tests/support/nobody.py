"""Ports and addresses at which nobody listens."""

import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Ports of this machine that are free, all different."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(server.getsockname()[1]) for server in servers]


def free_port() -> int:
    """A port of this machine that is free."""
    (port,) = free_ports(1)
    return port


def nobody() -> str:
    """An address at which nobody listens."""
    return f"127.0.0.1:{free_port()}"
