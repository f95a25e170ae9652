import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from cqrs_cli.kafka.connection import probe


@contextmanager
def server_sending(response: bytes) -> Iterator[int]:
    """Run a server on a loopback port that sends `answer` to every client."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1024)
            connection.sendall(response)

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
