"""A broker that answers, and advertises an address that this machine cannot reach, is named by every client."""

import gc
import re
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.connection.connection_error import ConnectionFailure, metadata_or_failure
from cqrs_cli.kafka.connection.reachable import split_address
from cqrs_cli.kafka.embedded import login
from tests.support.harness import TopicHarness

DEAD_PORT = 1
WRONG = rf"answers, but .* advertises: 127\.0\.0\.1:{DEAD_PORT} \(connection refused\)"

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # sockets of kafka-python
]


class WrongListener:
    """A proxy before a real broker. It replaces the broker's port in the answers by a port without a listener."""

    def __init__(self, broker: str) -> None:
        self._target = split_address(broker)
        host, port = self._target
        self._advertised = host.encode() + struct.pack(">i", port)
        self._replacement = host.encode() + struct.pack(">i", DEAD_PORT)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            broker = socket.create_connection(self._target)
            for source, sink in ((client, broker), (broker, client)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        """Copy until one side closes. The brokers' answers here are shorter than one read."""
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data.replace(self._advertised, self._replacement))
        except OSError:
            pass
        for side in (source, sink):
            side.close()


@pytest.fixture
def wrong(connection: Connection) -> Iterator[Connection]:
    proxy = WrongListener(connection.bootstrap_server)
    yield Connection(proxy.address)
    proxy.close()
    gc.collect()


def admin_error(cluster: Connection) -> tuple[str, str]:
    """Return message and hint only: the error keeps sockets that kafka-python leaves open."""
    try:
        with Admin(cluster) as admin:
            admin.describe(["no.such.topic"])
    except UnavailableError as error:
        return error.message, error.hint
    return "", ""


def test_admin_client_names_advertised_address(wrong: Connection) -> None:
    message, hint = admin_error(wrong)
    assert re.search(WRONG, message) and "correct advertised.listeners" in hint


def test_consumer_names_advertised_address(wrong: Connection, counters: TopicHarness) -> None:
    with pytest.raises(UnavailableError, match=WRONG):
        readers.bounds(wrong, counters.topics.events, [0])


def test_producer_names_advertised_address(wrong: Connection) -> None:
    errors: list[KafkaError | None] = []
    producer = clients.producer(wrong, message_timeout_ms=2000)
    producer.produce("no.such.topic", b"", on_delivery=lambda error, _: errors.append(error))
    producer.flush(10)
    (error,) = errors
    assert error is not None
    assert re.search(WRONG, clients.unreachable_error(wrong, error).message)


def test_reachable_broker_is_not_blamed(connection: Connection) -> None:
    error = clients.unreachable_error(connection, "Local: Timed out")
    assert error.message == f"no answer from Kafka at {connection.bootstrap_server} (Local: Timed out)"


def test_absent_broker_refuses_the_connection() -> None:
    error = clients.unreachable_error(Connection("127.0.0.1:1"), "Local: Timed out")
    assert error.message == "no answer from Kafka at 127.0.0.1:1 (connection refused)"


@pytest.mark.parametrize("response", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"", bytes(1000)])
def test_foreign_server_gets_no_password(response: bytes) -> None:
    """Another program may take the port of a stopped broker."""
    requests: list[bytes] = []

    def serve() -> None:
        with listener.accept()[0] as client:
            requests.append(client.recv(1 << 16))
            client.sendall(response)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        answer = metadata_or_failure(Cluster(address, login.client_properties("secret")), timeout=0.5)
    assert isinstance(answer, ConnectionFailure)
    assert b"secret" not in b"".join(requests)
