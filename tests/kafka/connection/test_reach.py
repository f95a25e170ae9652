"""Who listens is told at once; who does not, with the reason."""

import socket

import pytest

from cqrs_cli.kafka.connection import reach


def test_a_server_that_listens_is_found_among_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert reach.first(["no-such-host.invalid:1", address], within=5) == address


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "connection refused"),
        ("no-such-host.invalid:1", r"DNS does not know no-such-host\.invalid"),
    ],
)
def test_the_reason_is_told(address: str, reason: str) -> None:
    with pytest.raises(reach.UnreachedError, match=reason):
        reach.first([address], within=5)


@pytest.mark.parametrize(
    ("server", "host", "port"),
    [
        ("kafka:19092", "kafka", 19092),
        ("kafka", "kafka", 9092),
        ("[::1]:19092", "::1", 19092),
        ("[::1]", "::1", 9092),
        (" kafka:1 ", "kafka", 1),
    ],
)
def test_an_address_is_taken_apart(server: str, host: str, port: int) -> None:
    assert reach.split(server) == (host, port)
