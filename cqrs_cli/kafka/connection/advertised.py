"""Finds a wrong `advertised.listeners`: the bootstrap server answers, but clients cannot reach the addresses of the
brokers in its answer, to which they send all further requests.
"""

import socket
from contextlib import closing

from confluent_kafka import Consumer, KafkaException

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.connection.handshake import UnreachedError, first_reachable
from cqrs_cli.kafka.connection.librdkafka_log import LIBRDKAFKA_LOG

#: Timeouts in seconds for the metadata, and for the connection to one address.
_METADATA_TIMEOUT, _CONNECT_TIMEOUT = 2.0, 0.5

#: Maximal number of addresses that are tried.
_MAX_TRIED = 5


def advertised_listeners_error(cluster: Cluster) -> UnavailableError | None:
    """Return the error for a cluster whose advertised addresses are all unreachable; None for another cause.

    Call it after a request has failed. It takes less than a second if the bootstrap server is down.
    """
    try:
        first_reachable(cluster.bootstrap_server.split(","), _CONNECT_TIMEOUT)
        configuration = {**cluster.librdkafka(), "group.id": "cqrs.reader"}
        with closing(Consumer(configuration, logger=LIBRDKAFKA_LOG)) as client:
            brokers = client.list_topics("__consumer_offsets", timeout=_METADATA_TIMEOUT).brokers.values()
    except (UnreachedError, KafkaException):
        return None
    addresses = [(broker.host, broker.port) for broker in brokers][:_MAX_TRIED]
    reasons = [_connection_problem(host, port) for host, port in addresses]
    if not reasons or None in reasons:
        return None
    failures = ", ".join(
        f"{host}:{port} ({reason})" for (host, port), reason in zip(addresses, reasons, strict=True)
    )
    return UnavailableError(
        f"Kafka at {cluster.bootstrap_server} answers, but this machine cannot reach the address that it advertises: "
        f"{failures}",
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
