"""kafka-python's admin client, with a silent log and timeouts; its errors are converted to errors of cqrs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cqrs_cli.errors import ConfigurationError, CqrsError, UnavailableError
from cqrs_cli.kafka.connection.advertised import advertised_listeners_error
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.connection.handshake import (
    CHECK_HINT,
    HandshakeFailure,
    UnreachedError,
    first_reachable,
    shake_hands,
)

#: Timeouts in milliseconds for the first answer, and for each later answer.
CONNECT_TIMEOUT_MS = 5_000
REQUEST_TIMEOUT_MS = 8_000


_LOGIN_HINT = "check sasl.mechanism and sasl.jaas.config in the file that --command-config names"


class _ConnectionReason(logging.Handler):
    """A log handler that keeps the reason of a failed connection: kafka-python logs it and raises a bare timeout.

    `has_login`: the client logs in. kafka-python repeats a rejected login until its timeout, so this handler raises the
    error at once. If kafka-python missed the broker's error, it only logs "disconnected", so this counts as a rejected
    login, too.
    """

    def __init__(self, has_login: bool = False) -> None:
        super().__init__(logging.WARNING)
        self._has_login = has_login
        self.reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        for argument in record.args if isinstance(record.args, tuple) else ():
            if isinstance(argument, Exception) and "bootstrap" not in str(argument):
                self.reason = str(argument).partition(": ")[2] or str(argument)
                if self._has_login and record.msg.startswith("Bootstrap connection"):
                    self._raise_rejected_login(argument)

    def _raise_rejected_login(self, error: Exception) -> None:
        from kafka import errors

        if isinstance(error, errors.SaslAuthenticationFailedError) or "disconnected" in str(error):
            raise errors.SaslAuthenticationFailedError(str(error))


def connect(connection: Cluster) -> Any:
    """Return a connected `KafkaAdminClient`; raises `UnavailableError` with the reason, or `ConfigurationError`."""
    from kafka import KafkaAdminClient
    from kafka.net.compat import KafkaNetClient

    clients: list[Any] = []

    def open_network_client(**config: Any) -> Any:
        clients.append(KafkaNetClient(**config))
        return clients[0]

    configuration = connection.kafka_python()
    try:
        # Pass only a reachable address: kafka-python tries unreachable ones for long, and leaves their sockets open.
        reachable = first_reachable(configuration["bootstrap_servers"], CONNECT_TIMEOUT_MS / 1000 - 1)
    except UnreachedError as error:
        raise _unreachable(connection, str(error)) from None
    mechanism = configuration.get("sasl_mechanism")
    failure = shake_hands(reachable, configuration.get("ssl_context"), mechanism, CONNECT_TIMEOUT_MS / 1000)
    if failure is not None:
        raise _handshake_error(connection, failure)
    configuration = {
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        **configuration,
        "bootstrap_servers": [reachable],
        "bootstrap_timeout_ms": CONNECT_TIMEOUT_MS,
        "kafka_client": open_network_client,
    }
    with _capture_reason(mechanism is not None) as reason_handler:
        try:
            with admin_errors(connection, reason_handler):
                return KafkaAdminClient(**configuration)
        except BaseException:
            for client in clients:
                close_failed(client)
            raise


def close_failed(client: Any) -> None:
    """Close a network client of kafka-python whose admin client failed to start; its thread may be running already.

    kafka-python's own `stop` waits for ever if the thread starts only afterwards, since the thread first clears the
    stop flag.
    """
    network = client._net
    while network._io_thread is not None and network._io_thread.is_alive():
        network._stop = True
        network.wakeup()
        network._io_thread.join(0.1)
    network._io_thread = None
    client.close()


def send_request(client: Any, request: Any, node: int | None = None) -> Any:
    """Return a broker's answer to a request for which `client` has no method. `node`: None for any broker."""
    return client._manager.run(client._manager.send, request, node)


@contextmanager
def _capture_reason(has_login: bool) -> Iterator[_ConnectionReason]:
    """Hide kafka-python's log in the block: its debug lines contain passwords, its warnings repeat raised errors."""
    log = logging.getLogger("kafka")
    if not any(isinstance(handler, logging.NullHandler) for handler in log.handlers):
        log.addHandler(logging.NullHandler())
    log.propagate = False
    log.setLevel(logging.WARNING)
    handler = _ConnectionReason(has_login)
    log.addHandler(handler)
    try:
        yield handler
    finally:
        log.removeHandler(handler)


@contextmanager
def admin_errors(connection: Cluster, reason_handler: _ConnectionReason | None = None) -> Iterator[None]:
    """Convert kafka-python's errors to errors of cqrs, which name the bootstrap server and no configuration."""
    from kafka import errors

    try:
        yield
    except CqrsError:
        raise
    except errors.SaslAuthenticationFailedError as error:
        raise _handshake_error(
            connection, HandshakeFailure("it rejects the login: wrong user or password", _LOGIN_HINT)
        ) from error
    except (errors.TopicAuthorizationFailedError, errors.ClusterAuthorizationFailedError) as error:
        raise ConfigurationError(
            f"the broker at {connection.bootstrap_server} does not allow the request: {_error_name(error)}",
            "grant the user of --command-config the ACLs that cqrs doctor names",
        ) from error
    except errors.BrokerResponseError as error:
        if error.retriable or isinstance(error, errors.RequestTimedOutError):
            raise _unreachable(connection, _error_name(error)) from error
        raise CqrsError(
            f"the broker at {connection.bootstrap_server} rejected the request: {_error_name(error)}",
            "see cqrs doctor",
        ) from error
    except (errors.KafkaError, OSError) as error:
        reason = (reason_handler.reason if reason_handler else "") or _error_name(error)
        raise advertised_listeners_error(connection) or _unreachable(connection, reason) from error


def _unreachable(connection: Cluster, detail: str) -> UnavailableError:
    return _handshake_error(connection, HandshakeFailure(detail, CHECK_HINT))


def _handshake_error(connection: Cluster, failure: HandshakeFailure) -> UnavailableError:
    return UnavailableError(
        f"no answer from Kafka at {connection.bootstrap_server} ({failure.reason})", failure.hint
    )


def _error_name(error: Exception) -> str:
    """Return only the class of an error, since messages of kafka-python quote whole requests and responses."""
    return type(error).__name__.removesuffix("Error")
