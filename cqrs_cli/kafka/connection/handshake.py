"""The first requests to a broker: finds a reachable server, and checks that it speaks Kafka with the TLS and login of
this client.

Clients retry for long even if no retry can help, and then report a bare timeout. This module finds the reason at once.
"""

import queue
import socket
import ssl
import struct
import threading
from collections.abc import Iterable
from functools import partial
from typing import NamedTuple

from cqrs_cli.kafka.connection.probe import receive

DEFAULT_PORT = 9092

_API_VERSIONS, _METADATA, _SASL_HANDSHAKE = 18, 3, 17
_UNSUPPORTED_MECHANISM = 33
_METADATA_BODY = struct.pack(">i?", 0, False)  # version 4: no topics, create none
_TLS_ALERT = b"\x15\x03"

#: OpenSSL's codes for a certificate that has expired, or is for another host or address.
_EXPIRED, _MISMATCHES = 10, (62, 64)

#: Bytes far above the size of these answers: a server that announces more does not speak Kafka.
_MAX_RESPONSE = 1 << 20

#: Hints for failed handshakes.
NO_TLS_HINT = "set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or name the port for TLS"
TLS_ONLY_HINT = "set security.protocol to SSL or SASL_SSL, and ssl.truststore.location"
LOGIN_HINT = "set security.protocol to SASL_SSL or SASL_PLAINTEXT, sasl.mechanism and sasl.jaas.config"
MECHANISM_HINT = "set sasl.mechanism in the file that --command-config names, or name another listener"
CERTIFICATE_HINT = "ssl.keystore.location must have a valid certificate that the broker trusts, and its key"
CHECK_HINT = "check -b/--bootstrap-server and that the broker runs: cqrs doctor"


class HandshakeFailure(NamedTuple):
    """Why the handshake between a broker and this client failed: sample reason "it requires a login", and a hint."""

    reason: str
    hint: str


def shake_hands(
    address: str, tls: ssl.SSLContext | None, mechanism: str | None, timeout: float
) -> HandshakeFailure | None:
    """Exchange two requests with the broker at HOST:PORT; return None if both succeed.

    `mechanism`: the SASL mechanism of the client's login, which the client itself performs later.
    """
    try:
        if tls is not None:
            return _shake_hands_with_tls(address, tls, mechanism, timeout)
        with _connect(address, timeout) as connection:
            return _send_requests(connection, mechanism)
    except ssl.SSLCertVerificationError as error:
        return _untrusted_certificate(error)
    except ssl.SSLError as error:
        return _tls_failure(error)
    except TimeoutError:
        return HandshakeFailure("it does not answer in time", CHECK_HINT)
    except ConnectionError:
        if tls is None:
            return HandshakeFailure("it closes the connection: perhaps it accepts TLS only", TLS_ONLY_HINT)
        return HandshakeFailure("it closes the connection when TLS begins", NO_TLS_HINT)
    except OSError as error:
        return HandshakeFailure((error.strerror or str(error)).lower(), CHECK_HINT)


def _shake_hands_with_tls(
    address: str, tls: ssl.SSLContext, mechanism: str | None, timeout: float
) -> HandshakeFailure | None:
    """Exchange the requests over TLS. A broker that rejects this client's certificate reports that after the handshake,
    and closes the connection at once.

    Its message is lost if this client has sent data before. So the first connection sends requests, and a second
    connection only listens.
    """
    host, _ = split_address(address)
    for exchange in (partial(_send_requests, mechanism=mechanism), _listen):
        with (
            _connect(address, timeout) as plain_socket,
            tls.wrap_socket(plain_socket, server_hostname=host) as tls_socket,
        ):
            try:
                return exchange(tls_socket)
            except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
                pass
    return HandshakeFailure("it closes the connection after the TLS handshake", CERTIFICATE_HINT)


def _connect(address: str, timeout: float) -> socket.socket:
    return socket.create_connection(split_address(address), timeout=timeout)


def _listen(connection: socket.socket) -> HandshakeFailure | None:
    """Wait for the TLS alert of a broker, which `recv` raises; raises `ConnectionError` if no alert arrives."""
    connection.recv(1)
    raise ConnectionError("closed without a message")


def _send_requests(connection: socket.socket, mechanism: str | None) -> HandshakeFailure | None:
    """Ask for the API versions, which needs no login. Then begin the login, or without a login ask for metadata, which
    a broker that requires a login does not answer.
    """
    connection.sendall(_request(_API_VERSIONS, 0, b""))
    first_bytes = connection.recv(4)
    if first_bytes.startswith(_TLS_ALERT):
        return HandshakeFailure("it accepts TLS only", TLS_ONLY_HINT)
    _receive_response(connection, first_bytes)
    if mechanism is not None:
        return _begin_login(connection, mechanism)
    try:
        connection.sendall(_request(_METADATA, 4, _METADATA_BODY))
        _receive_response(connection)
    except ConnectionError:
        return HandshakeFailure("it requires a login", LOGIN_HINT)
    return None


def _begin_login(connection: socket.socket, mechanism: str) -> HandshakeFailure | None:
    """Send the SASL handshake for a mechanism; return the failure if the broker does not accept the mechanism."""
    name = mechanism.encode()
    connection.sendall(_request(_SASL_HANDSHAKE, 1, struct.pack(">h", len(name)) + name))
    response = _receive_response(connection)
    _correlation, error_code, count = struct.unpack_from(">ihi", response)
    if error_code == 0:
        return None
    index, mechanisms = struct.calcsize(">ihi"), []
    for _ in range(count if error_code == _UNSUPPORTED_MECHANISM else 0):
        (length,) = struct.unpack_from(">h", response, index)
        mechanisms.append(response[index + 2 : index + 2 + length].decode(errors="replace"))
        index += 2 + length
    supported = f": it accepts {', '.join(mechanisms)}" if mechanisms else ""
    return HandshakeFailure(f"it accepts no login with {mechanism}{supported}", MECHANISM_HINT)


def _receive_response(connection: socket.socket, first_bytes: bytes = b"") -> bytes:
    """Return the next answer without its length; `first_bytes`: bytes read before. Raises `ConnectionError`."""
    length_field = first_bytes + receive(connection, 4 - len(first_bytes))
    return receive(connection, min(struct.unpack(">I", length_field)[0], _MAX_RESPONSE))


def _request(api_key: int, version: int, body: bytes) -> bytes:
    """Return a request with its length. Correlation id 1, and client id `cqrs` of 4 bytes."""
    head = struct.pack(">hhih4s", api_key, version, 1, 4, b"cqrs")
    return struct.pack(">i", len(head) + len(body)) + head + body


def _untrusted_certificate(error: ssl.SSLCertVerificationError) -> HandshakeFailure:
    reason = f"its certificate is not trusted: {error.verify_message.rstrip('.')}"
    if error.verify_code in _MISMATCHES:
        return HandshakeFailure(
            reason,
            "connect to a name in the certificate, or disable the check: ssl.endpoint.identification.algorithm=",
        )
    if error.verify_code == _EXPIRED:
        return HandshakeFailure(reason, "the broker needs a new certificate")
    return HandshakeFailure(reason, "ssl.truststore.location must contain the authority that signed it")


def _tls_failure(error: ssl.SSLError) -> HandshakeFailure:
    reason = (error.reason or str(error)).lower().replace("_", " ")
    if "alert" in reason and ("certificate" in reason or "unknown ca" in reason):
        alert = reason.partition("alert ")[2]
        return HandshakeFailure(f"it rejects the certificate of this client: {alert}", CERTIFICATE_HINT)
    is_eof = isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError))  # some OpenSSLs raise the second
    if is_eof or "wrong version number" in reason or "record layer" in reason:
        return HandshakeFailure("it does not support TLS", NO_TLS_HINT)
    return HandshakeFailure(
        f"TLS fails: {reason}", "check the ssl.* client properties and the TLS settings of the listener"
    )


class UnreachedError(Exception):
    """No server accepts a connection; the message contains the reason of the last server."""


def first_reachable(servers: Iterable[str], timeout: float) -> str:
    """Return the HOST:PORT that accepts a connection first; raises `UnreachedError` after `timeout` seconds."""
    results: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()
    addresses = list(servers)
    for address in addresses:
        # Daemon threads, since the system's lookup of a host name has no timeout.
        threading.Thread(target=_try_connect, args=(address, timeout, results), daemon=True).start()
    reason = "no server is configured"
    for _ in addresses:
        try:
            address, reason = results.get(timeout=timeout + 0.5)
        except queue.Empty:
            raise UnreachedError("the host name was not resolved in time") from None
        if not reason:
            return address
    raise UnreachedError(reason)


def _try_connect(address: str, timeout: float, results: "queue.SimpleQueue[tuple[str, str]]") -> None:
    host, port = split_address(address)
    reason = ""
    try:
        socket.create_connection((host, port), timeout=timeout).close()
    except (socket.gaierror, UnicodeError):
        reason = f"DNS does not know {host}"
    except TimeoutError:
        reason = "connecting takes too long"
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
    results.put((address, reason))


def split_address(server: str) -> tuple[str, int]:
    """Return the host and port of `HOST:PORT`, `HOST` or `[IPv6]:PORT`."""
    host, colon, port = server.strip().rpartition(":")
    if not colon or server.strip().endswith("]"):
        return server.strip().strip("[]"), DEFAULT_PORT
    return host.strip("[]"), int(port)
