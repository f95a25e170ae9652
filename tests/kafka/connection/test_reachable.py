"""The first connection to a broker: which server accepts it, and why the others do not."""

import socket

import pytest

from cqrs_cli.kafka.connection.reachable import UnreachedError, first_reachable, split_address


def test_listening_server_is_found_first() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert first_reachable(["no-such-host.invalid:1", address], timeout=5) == address


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1:1", "connection refused"),
        ("no-such-host.invalid:1", r"DNS does not know no-such-host\.invalid"),
    ],
)
def test_refusal_names_its_reason(address: str, reason: str) -> None:
    with pytest.raises(UnreachedError, match=reason):
        first_reachable([address], timeout=5)


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
def test_address_splits_into_host_and_port(server: str, host: str, port: int) -> None:
    assert split_address(server) == (host, port)
