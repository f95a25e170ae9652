"""Asks the server on a port to which Kafka cluster it belongs, with a login and one Metadata request. This needs no
client library, and takes some ms.

If the broker answers, a command needs no other check, so `cqrs send` stays fast.
"""

import base64
import hashlib
import hmac
import secrets
import socket
import struct
from typing import NamedTuple

HOST = "127.0.0.1"

#: The login's mechanism: RFC 5802 and RFC 7677.
MECHANISM = "SCRAM-SHA-256"

#: Requests, each with its last version without tagged fields.
_METADATA, _METADATA_VERSION = 3, 8
_SASL_HANDSHAKE, _SASL_HANDSHAKE_VERSION = 17, 1
_SASL_AUTHENTICATE, _SASL_AUTHENTICATE_VERSION = 36, 1
_CORRELATION = 0x63717273
_CLIENT_ID = b"cqrs"
#: Requests the cluster only: no topics, create none, no authorized operations.
_METADATA_BODY = struct.pack(">i???", 0, False, False, False)

#: Bytes far above the size of one broker's description: a server that announces more does not speak Kafka.
_MAX_RESPONSE = 1 << 20

#: Iterations of the hash, far above Kafka's 4096: a login with more would take seconds.
_MAX_ITERATIONS = 1 << 16


class User(NamedTuple):
    """The login of a client."""

    name: str
    password: str


class RejectedLoginError(Exception):
    """The broker does not know the user, or the password is wrong."""


class ProbedCluster(NamedTuple):
    """A cluster that answered. `brokers` is empty until the broker is ready to serve."""

    cluster_id: str
    brokers: tuple[int, ...]  # their ports


def describe_cluster(port: int, user: User | None = None, timeout: float = 1.0) -> ProbedCluster | None:
    """Return the cluster on the loopback port; None if no Kafka broker answers within `timeout` seconds.

    Raises `RejectedLoginError` if the broker rejects `user`.
    """
    try:
        with socket.create_connection((HOST, port), timeout=timeout) as connection:
            if connection.getsockname() == connection.getpeername():
                return None  # TCP connected the socket to itself: no server listens
            if user is not None:
                _log_in(connection, user)
            return _parse_cluster(_request(connection, _METADATA, _METADATA_VERSION, _METADATA_BODY))
    except (OSError, struct.error, ValueError, KeyError):
        return None


def _log_in(connection: socket.socket, user: User) -> None:
    """Log in with SCRAM, which sends no password. Raises `RejectedLoginError` if the broker rejects the login,
    `ValueError` if the broker does not prove that it knows the password.
    """
    mechanism = MECHANISM.encode()
    _request(
        connection,
        _SASL_HANDSHAKE,
        _SASL_HANDSHAKE_VERSION,
        struct.pack(">h", len(mechanism)) + mechanism,
    )
    nonce = secrets.token_urlsafe(18)
    first = f"n={user.name},r={nonce}"
    challenge = _authenticate(connection, f"n,,{first}")
    fields = dict(field.split("=", 1) for field in challenge.split(","))
    if not fields["r"].startswith(nonce) or int(fields["i"]) > _MAX_ITERATIONS:
        raise ValueError("not the answer of a Kafka broker to this client")
    final = f"c=biws,r={fields['r']}"
    auth_message = f"{first},{challenge},{final}".encode()
    salted = hashlib.pbkdf2_hmac(
        "sha256", user.password.encode(), base64.b64decode(fields["s"]), int(fields["i"])
    )
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(client_key).digest(), auth_message, "sha256")
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    answer = _authenticate(connection, f"{final},p={base64.b64encode(proof).decode()}")
    broker_proof = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), auth_message, "sha256")
    if not hmac.compare_digest(answer, f"v={base64.b64encode(broker_proof).decode()}"):
        raise ValueError("the broker does not know the password")


def _authenticate(connection: socket.socket, message: str) -> str:
    """Send a message of the login; return the answer. Raises `RejectedLoginError`."""
    body = struct.pack(">i", len(message)) + message.encode()
    response = _request(connection, _SASL_AUTHENTICATE, _SASL_AUTHENTICATE_VERSION, body)
    (error,) = struct.unpack_from(">h", response)
    text, index = _parse_text(response, 2)
    if error:
        raise RejectedLoginError(text)
    (size,) = struct.unpack_from(">i", response, index)
    return response[index + 4 : index + 4 + size].decode()


def _request(connection: socket.socket, key: int, version: int, body: bytes) -> bytes:
    """Send a request; return the body of its response. Raises `ValueError` for a server that does not speak Kafka."""
    head = struct.pack(">hhih4s", key, version, _CORRELATION, len(_CLIENT_ID), _CLIENT_ID)
    connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    (size,) = struct.unpack(">i", receive(connection, 4))
    if not 0 < size < _MAX_RESPONSE:
        raise ValueError("not a response of Kafka")
    response = receive(connection, size)
    if struct.unpack_from(">i", response) != (_CORRELATION,):
        raise ValueError("a response to another request")
    return response[4:]


def receive(connection: socket.socket, size: int) -> bytes:
    """Read `size` bytes; raises `ConnectionError` if the other side closes first."""
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        if not chunk:
            raise ConnectionError("closed within an answer")
        data += chunk
    return data


def _parse_cluster(response: bytes) -> ProbedCluster:
    _throttle, count = struct.unpack_from(">ii", response)
    index, ports = 8, []
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
