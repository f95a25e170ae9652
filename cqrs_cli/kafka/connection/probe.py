"""Asks the server on a port which Kafka cluster it is: one Metadata request, no client library, some ms.

A command whose broker is running pays for no other check, so `cqrs send` stays fast.
"""

import socket
import struct
from typing import NamedTuple

HOST = "127.0.0.1"

_METADATA = 3
_VERSION = 8  # the last version without tagged fields
_CORRELATION = 0x63717273
_CLIENT = b"cqrs"
#: Requests the cluster only: no topics, create none, no authorized operations.
_BODY = struct.pack(">i???", 0, False, False, False)
_REQUEST = struct.pack(">hhih4s", _METADATA, _VERSION, _CORRELATION, len(_CLIENT), _CLIENT) + _BODY

#: Bytes far above the size of one broker's description: a server that announces more does not speak Kafka.
_MAX_RESPONSE = 1 << 20


class ProbedCluster(NamedTuple):
    """A cluster that answered. `brokers` is empty until the broker is ready to serve."""

    cluster_id: str
    brokers: tuple[int, ...]  # their ports


def describe_cluster(port: int, timeout: float = 1.0) -> ProbedCluster | None:
    """Return the cluster on the loopback port; None if no Kafka broker answers within `timeout` seconds."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout) as connection:
            if connection.getsockname() == connection.getpeername():
                return None  # TCP connected the socket to itself: no server listens
            connection.sendall(struct.pack(">i", len(_REQUEST)) + _REQUEST)
            (size,) = struct.unpack(">i", receive(connection, 4))
            return _parse_response(receive(connection, size)) if 0 < size < _MAX_RESPONSE else None
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def receive(connection: socket.socket, size: int) -> bytes:
    """Read `size` bytes; raises `ConnectionError` if the other side closes first."""
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionError("closed within an answer")
        data += chunk
    return data


def _parse_response(response: bytes) -> ProbedCluster | None:
    correlation, _throttle, count = struct.unpack_from(">iii", response)
    if correlation != _CORRELATION:
        return None
    index, ports = 12, []
    for _ in range(count):
        index += 4  # node id
        _host, index = _parse_text(response, index)
        ports.append(struct.unpack_from(">i", response, index)[0])
        _rack, index = _parse_text(response, index + 4)
    cluster_id, _ = _parse_text(response, index)
    return ProbedCluster(cluster_id, tuple(ports))


def _parse_text(response: bytes, index: int) -> tuple[str, int]:
    """Return a nullable string, with null as empty, and the index of the next field."""
    (size,) = struct.unpack_from(">h", response, index)
    end = index + 2 + max(size, 0)
    return response[index + 2 : end].decode(), end
