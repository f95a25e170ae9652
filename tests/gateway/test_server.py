"""The gateway's socket."""

import socket
from contextlib import closing

import pytest

from cqrs_cli.gateway.server import listen


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bodies_wait_for_no_acknowledgement(host: str) -> None:
    """Head and body are two writes; the second one would wait for the client's delayed acknowledgement of the first."""
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with (
        listen(host, 0) as listening,
        closing(socket.create_connection((host, listening.getsockname()[1]))),
        listening.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
