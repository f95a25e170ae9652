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
_MOST = 1 << 20


class Seen(NamedTuple):
    """A cluster that answered. `brokers` is empty until the broker is ready to serve."""

    cluster_id: str
    brokers: tuple[int, ...]  # their ports


def ask(port: int, timeout: float = 1.0) -> Seen | None:
    """Return the cluster on the loopback port; None if no Kafka broker answers within `timeout` seconds."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout) as connection:
            if connection.getsockname() == connection.getpeername():
                return None  # TCP connected the socket to itself: no server listens
            connection.sendall(struct.pack(">i", len(_REQUEST)) + _REQUEST)
            (size,) = struct.unpack(">i", receive(connection, 4))
            return _read(receive(connection, size)) if 0 < size < _MOST else None
    except (OSError, struct.error, UnicodeDecodeError):
        return None


def receive(connection: socket.socket, size: int) -> bytes:
    """Read `size` bytes; raises `ConnectionError` if the other side closes first."""
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionError("closed within an answer")
        data += more
    return data


def _read(answer: bytes) -> Seen | None:
    correlation, _throttle, count = struct.unpack_from(">iii", answer)
    if correlation != _CORRELATION:
        return None
    at, ports = 12, []
    for _ in range(count):
        at += 4  # node id
        _host, at = _text(answer, at)
        ports.append(struct.unpack_from(">i", answer, at)[0])
        _rack, at = _text(answer, at + 4)
    cluster_id, _ = _text(answer, at)
    return Seen(cluster_id, tuple(ports))


def _text(answer: bytes, at: int) -> tuple[str, int]:
    """Return a nullable string, with null as empty, and the index of the next field."""
    (size,) = struct.unpack_from(">h", answer, at)
    end = at + 2 + max(size, 0)
    return answer[at + 2 : end].decode(), end
