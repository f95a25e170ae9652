import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from cqrs_cli.kafka.connection import probe


@contextmanager
def server_sending(*responses: bytes | Callable[[bytes], bytes]) -> Iterator[int]:
    """Run a server on a loopback port that answers each request of a client with a response, or a function's result."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            for response in responses:
                request = connection.recv(1024)
                assert b"password" not in request
                if request:
                    connection.sendall(response if isinstance(response, bytes) else response(request))

    with socket.create_server((probe.HOST, 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join()


def metadata_response(cluster_id: bytes, correlation: int = 0x63717273) -> bytes:
    broker = struct.pack(">ih4sih", 1, 4, b"host", 9092, -1)
    body = struct.pack(">iii", correlation, 0, 1) + broker + struct.pack(">h", len(cluster_id)) + cluster_id
    return struct.pack(">i", len(body)) + body


def test_broker_names_cluster_and_ports() -> None:
    with server_sending(metadata_response(b"abc")) as port:
        assert probe.describe_cluster(port) == probe.ProbedCluster("abc", (9092,))


def test_foreign_response_is_ignored() -> None:
    with server_sending(metadata_response(b"abc", correlation=7)) as port:
        assert probe.describe_cluster(port) is None


def test_other_protocol_is_not_kafka() -> None:
    with server_sending(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert probe.describe_cluster(port) is None


def test_broken_response_is_not_kafka() -> None:
    with server_sending(metadata_response(b"abc")[:20]) as port:
        assert probe.describe_cluster(port) is None


def test_silent_server_is_a_timeout() -> None:
    with socket.create_server((probe.HOST, 0)) as listener:
        assert probe.describe_cluster(listener.getsockname()[1], timeout=0.1) is None


def test_closed_port_has_no_cluster() -> None:
    with socket.create_server((probe.HOST, 0)) as listener:
        port = listener.getsockname()[1]
    assert probe.describe_cluster(port) is None


def login_response(message: bytes) -> bytes:
    body = struct.pack(">ihhi", 0x63717273, 0, -1, len(message)) + message + bytes(8)
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize(
    "challenge",
    [b"r=other,s=c2FsdA==,i=4096", b"r=%s,s=c2FsdA==,i=4096", b"r=%s,s=c2FsdA==,i=99999999", b"r=%s", b""],
)
def test_imposter_learns_no_password(challenge: bytes) -> None:
    """Another program that took the port of a stopped broker knows no password, and gets none."""

    def send_challenge(request: bytes) -> bytes:
        return login_response(challenge.replace(b"%s", request.rpartition(b"r=")[2]))

    start, end = login_response(b""), login_response(b"v=AAAA")
    with server_sending(start, send_challenge, end, metadata_response(b"abc")) as port:
        assert probe.describe_cluster(port, probe.User("cqrs", "password")) is None
