"""kafka-python's admin client, with timeouts and without log output. Converts its errors to errors of cqrs."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.connection.connection_error import connection_error, unavailable
from cqrs_cli.kafka.connection.reachable import UnreachedError, first_reachable

#: Timeouts in milliseconds for the first answer of a broker, and for each later answer.
CONNECT_TIMEOUT_MS = 5_000
REQUEST_TIMEOUT_MS = 8_000


def connect(connection: Cluster) -> Any:
    """Return a connected `KafkaAdminClient`; raises `UnavailableError` with the reason, or `ConfigurationError`."""
    from kafka import KafkaAdminClient
    from kafka.net.compat import KafkaNetClient

    clients: list[Any] = []

    def open_network_client(**config: Any) -> Any:
        clients.append(KafkaNetClient(**config))
        return clients[0]

    configuration = connection.kafka_python()
    if (error := connection_error(connection, CONNECT_TIMEOUT_MS / 1000)) is not None:
        raise error
    try:
        # Only a reachable address is passed on, because kafka-python tries unreachable addresses for a long time, and
        # leaves their sockets open.
        reachable_server = first_reachable(configuration["bootstrap_servers"], CONNECT_TIMEOUT_MS / 1000)
    except UnreachedError as error:
        raise unavailable(connection, str(error)) from None
    configuration = {
        "request_timeout_ms": REQUEST_TIMEOUT_MS,
        **configuration,
        "bootstrap_servers": [reachable_server],
        "bootstrap_timeout_ms": CONNECT_TIMEOUT_MS,
        "kafka_client": open_network_client,
    }
    _silence_log()
    try:
        with admin_errors(connection):
            return KafkaAdminClient(**configuration)
    except BaseException:
        for client in clients:
            close_failed(client)
        raise


def close_failed(client: Any) -> None:
    """Close a network client of kafka-python whose admin client failed to start. Its thread may be starting.

    kafka-python's own `stop` may wait for ever: a starting thread clears the stop flag.
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


def _silence_log() -> None:
    """Hide kafka-python's log. Its debug lines contain passwords, and its warnings repeat errors that are raised."""
    log = logging.getLogger("kafka")
    if not log.handlers:
        log.addHandler(logging.NullHandler())
    log.propagate = False
    log.setLevel(logging.WARNING)


@contextmanager
def admin_errors(connection: Cluster) -> Iterator[None]:
    """Convert kafka-python's errors to errors of cqrs, which name the bootstrap server and no configuration."""
    from kafka import errors

    try:
        yield
    except CqrsError:
        raise
    except (errors.TopicAuthorizationFailedError, errors.ClusterAuthorizationFailedError) as error:
        raise ConfigurationError(
            f"the broker at {connection.bootstrap_server} does not allow the request: {_error_name(error)}",
            "grant the user of --command-config the ACLs that cqrs doctor names",
        ) from error
    except errors.BrokerResponseError as error:
        if error.retriable or isinstance(error, errors.RequestTimedOutError):
            raise unavailable(connection, _error_name(error)) from error
        raise CqrsError(
            f"the broker at {connection.bootstrap_server} rejected the request: {_error_name(error)}",
            "see cqrs doctor",
        ) from error
    except (errors.KafkaError, OSError) as error:
        raise connection_error(connection) or unavailable(connection, _error_name(error)) from error


def _error_name(error: Exception) -> str:
    """Return the class of an error without its message: kafka-python's messages quote whole requests and responses."""
    return type(error).__name__.removesuffix("Error")
