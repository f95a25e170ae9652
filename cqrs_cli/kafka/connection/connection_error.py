"""Finds the reason why requests fail: no server listens, TLS or the login fails, or `advertised.listeners` is wrong.

librdkafka retries until its timeout, even if no retry can help, and then reports only the timeout. But it logs the
reason at once, so a new client's log is searched for the reason.
"""

import logging
import re
import socket
import time
from contextlib import closing
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.connection.reachable import UnreachedError, first_reachable

#: Timeout in seconds for the connection to an advertised address, and the maximal number of addresses to try.
_CONNECT_TIMEOUT, _MAX_ADDRESSES = 0.5, 5

REJECTED_LOGIN_HINT = "check sasl.mechanism and sasl.jaas.config in the file that --command-config names"
CHECK_HINT = "check -b/--bootstrap-server and that the broker runs: cqrs doctor"


class ConnectionFailure(NamedTuple):
    """The reason why a cluster does not answer a new client, such as "it requires a login", and a hint for the
    operator.
    """

    reason: str
    hint: str = CHECK_HINT


#: (pattern of a line in librdkafka's log, the failure that the line reports). The first match counts. Each `{}` in a
#: reason is replaced by a group of the pattern. A broker that expects TLS or a login closes the connection without
#: giving a reason, so the patterns for these failures match the state of the closed connection.
_FAILURES: tuple[tuple[str, ConnectionFailure], ...] = (
    (
        r"SASL (\S+) mechanism handshake failed.*supported mechanisms: (.+) \(after",
        ConnectionFailure(
            "it accepts no login with {}: it accepts {}",
            "set sasl.mechanism in the file that --command-config names, or name another listener",
        ),
    ),
    (
        r"SASL authentication error: (?:Authentication failed: )?(.+) \(after",
        ConnectionFailure(
            "it rejects the login: {}",
            REJECTED_LOGIN_HINT,
        ),
    ),
    (
        r"certificate verify failed",
        ConnectionFailure(
            "its certificate is not trusted",
            "ssl.truststore.location must contain the authority that signed it; if it does, the certificate has "
            "expired, or is for another host: connect to a name in the certificate, or disable the check: "
            "ssl.endpoint.identification.algorithm=",
        ),
    ),
    (
        r"alert (.*certificate.*|unknown ca): SSL alert",
        ConnectionFailure(
            "it rejects the certificate of this client: {}",
            "ssl.keystore.location must have a valid certificate that the broker trusts, and its key",
        ),
    ),
    (
        r"Disconnected: .* in state SSL_HANDSHAKE|wrong version number",
        ConnectionFailure(
            "it does not support TLS",
            "set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or name the port for TLS",
        ),
    ),
    (
        r"SSL handshake failed: (.+) \(after",
        ConnectionFailure(
            "TLS fails: {}",
            "check the ssl.* client properties and the TLS settings of the listener",
        ),
    ),
    (
        r"Disconnected: .* in state APIVERSION_QUERY",
        ConnectionFailure(
            "it closes the connection: perhaps it accepts TLS only",
            "set security.protocol to SSL or SASL_SSL, and ssl.truststore.location",
        ),
    ),
    (
        r"Disconnected: .* in state UP",
        ConnectionFailure(
            "it requires a login",
            "set security.protocol to SASL_SSL or SASL_PLAINTEXT, sasl.mechanism and sasl.jaas.config",
        ),
    ),
)


class _FailureLog(logging.Handler):
    """Keeps the first failure that a client logs."""

    def __init__(self) -> None:
        super().__init__()
        self.failure: ConnectionFailure | None = None

    def emit(self, record: logging.LogRecord) -> None:
        line = record.getMessage()
        if self.failure is None and line.startswith("FAIL "):
            for pattern, failure in _FAILURES:
                if match := re.search(pattern, line):
                    self.failure = failure._replace(reason=failure.reason.format(*match.groups()))
                    break


def metadata_or_failure(cluster: Cluster, timeout: float) -> Any:
    """Return the metadata (confluent-kafka's `ClusterMetadata`) that a new client gets, or the `ConnectionFailure`.

    This takes a few ms if the cluster answers, and at most `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    try:
        server = first_reachable(cluster.bootstrap_server.split(","), timeout)
    except UnreachedError as error:
        return ConnectionFailure(str(error))
    failure_log, logger = _FailureLog(), logging.Logger("cqrs.connection")
    logger.addHandler(failure_log)
    configuration = {
        "reconnect.backoff.ms": 20,
        **cluster.librdkafka(),
        "bootstrap.servers": server,
        "group.id": "cqrs.reader",
    }
    request_timeout = 0.05
    with closing(Consumer(configuration, logger=logger)) as client:
        while failure_log.failure is None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                return ConnectionFailure("it does not answer in time")
            try:
                return client.list_topics("__consumer_offsets", timeout=min(request_timeout, remaining))
            except KafkaException:
                client.poll(0)  # forwards the log
                request_timeout *= 2
    return failure_log.failure


def connection_error(cluster: Cluster, timeout: float = 2.0) -> UnavailableError | None:
    """Return the error of a new connection; None if the cluster answers and at least one broker's advertised address is
    reachable.
    """
    answer = metadata_or_failure(cluster, timeout)
    if isinstance(answer, ConnectionFailure):
        return unavailable(cluster, *answer)
    return _advertised_listeners_error(cluster, answer)


def unavailable(cluster: Cluster, reason: str, hint: str = CHECK_HINT) -> UnavailableError:
    """Return the error for a cluster that gives no answer."""
    return UnavailableError(f"no answer from Kafka at {cluster.bootstrap_server} ({reason})", hint)


def _advertised_listeners_error(cluster: Cluster, metadata: Any) -> UnavailableError | None:
    """Return the error for a cluster whose advertised addresses are all unreachable."""
    problems = []
    for broker in list(metadata.brokers.values())[:_MAX_ADDRESSES]:
        if (problem := _connection_problem(broker.host, broker.port)) is None:
            return None
        problems.append(f"{broker.host}:{broker.port} ({problem})")
    if not problems:
        return None
    return UnavailableError(
        f"Kafka at {cluster.bootstrap_server} answers, but this machine cannot reach the address that it advertises: "
        f"{', '.join(problems)}",
        "correct advertised.listeners of the brokers, or make the address reachable from here",
    )


def _connection_problem(host: str, port: int) -> str | None:
    try:
        socket.create_connection((host, port), _CONNECT_TIMEOUT).close()
    except socket.gaierror:
        return "the name does not resolve"
    except TimeoutError:
        return "no answer"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None
