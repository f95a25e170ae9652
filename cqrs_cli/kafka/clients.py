"""Kafka clients with the settings on which the guarantees depend. All data goes through librdkafka."""

import time
from collections.abc import Callable, Collection
from typing import Any, Literal, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer

from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.connection.connection_error import connection_error, unavailable
from cqrs_cli.kafka.connection.librdkafka_log import LIBRDKAFKA_LOG
from cqrs_cli.kafka.error_kinds import ErrorKind, error_kind
from cqrs_cli.kafka.topics.acls import RequiredAcl

_T = TypeVar("_T")

Isolation = Literal["read_committed", "read_uncommitted"]

#: Timeout in seconds for a request, after which the broker counts as unreachable.
REQUEST_TIMEOUT = 10.0

#: A client first connects to the bootstrap server, then to a broker from the metadata. librdkafka opens the second
#: connection only after half of `reconnect.backoff.ms` (100 by default). With 20, the first answer comes after 15 ms
#: instead of 55. `reconnect.backoff.max.ms` keeps its default of ten seconds, because a coordinator that has just
#: started reports outdated positions.
_FAST_RECONNECT = {"reconnect.backoff.ms": 20}

#: Timeouts in seconds: for the first answer of a healthy broker, and for finding the reason of a failed connection.
FIRST_ANSWER_TIMEOUT, REASON_TIMEOUT = 1.0, 5.0


def consumer(
    connection: Cluster,
    *,
    group: str | None = None,
    isolation: Isolation = "read_committed",
    on_error: Callable[[KafkaError], object] | None = None,
    **overrides: Any,
) -> Consumer:
    """Return a consumer for assigned partitions. It never subscribes to topics, and commits nothing by itself.

    An offset that does not exist is an error (`auto.offset.reset=error`). The end of a partition is reported.
    `on_error` is called during polls with errors that concern no partition, such as unreachable brokers. `overrides`:
    librdkafka's properties, with `_` in place of each dot.
    """
    return Consumer(
        {
            **_FAST_RECONNECT,
            **connection.librdkafka(),
            **({"error_cb": on_error} if on_error else {}),
            "group.id": group or "cqrs.reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "check.crcs": True,
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 1,  # 0 polls busily; with the default, 1000, a backlog is read slowly
            **{name.replace("_", "."): value for name, value in overrides.items()},
        },
        logger=LIBRDKAFKA_LOG,
    )


def bulk_consumer(
    connection: Cluster, *, isolation: Isolation = "read_committed", **overrides: Any
) -> Consumer:
    """Return a consumer for bounded reads, also long ones: it fetches large batches, and queues at most 16 MiB.

    A bounded read usually ends at a control record, so its last fetch is empty. Here the broker delays an empty fetch
    for at most 2 ms. With the 100 ms of `consumer`, each read would end 100 ms later.
    """
    settings = {
        "queued_min_messages": 200_000,
        "queued_max_messages_kbytes": 16 * 1024,
        "max_partition_fetch_bytes": 4 * 1024 * 1024,
        "fetch_max_bytes": 8 * 1024 * 1024,
        "fetch_wait_max_ms": 2,
    }
    return consumer(connection, isolation=isolation, **(settings | overrides))


def producer(
    connection: Cluster,
    *,
    transactional_id: str | None = None,
    on_error: Callable[[KafkaError], object] | None = None,
    **overrides: Any,
) -> Producer:
    """Return an idempotent producer that waits for all in-sync replicas; with a `transactional_id` it is transactional.

    `on_error` is called during polls with errors that concern no call, such as an unreachable broker.
    """
    transactional_property = {"transactional.id": transactional_id} if transactional_id else {}
    error_callback = {"error_cb": on_error} if on_error else {}
    return Producer(
        {
            **_FAST_RECONNECT,
            **connection.librdkafka(),
            **transactional_property,
            **error_callback,
            "enable.idempotence": True,
            "acks": "all",
            "compression.type": "lz4",
            **{name.replace("_", "."): value for name, value in overrides.items()},
        },
        logger=LIBRDKAFKA_LOG,
    )


def fetch_metadata(connection: Cluster, client: Consumer | Producer, topic: str | None = None) -> Any:
    """Return the metadata of the cluster, and of one topic or, without a `topic`, of all topics.

    This is the first request of a CLI command. If no broker answers, librdkafka retries until its timeout, even if no
    retry can help, and then reports no reason. So after `FIRST_ANSWER_TIMEOUT` seconds, a new connection is opened to
    find the reason. Raises `UnavailableError` with the reason.
    """
    try:
        return _request_metadata(client, topic, FIRST_ANSWER_TIMEOUT)
    except KafkaException:
        if (reason := connection_error(connection, REASON_TIMEOUT)) is not None:
            raise reason from None
    try:
        return _request_metadata(client, topic, REQUEST_TIMEOUT)
    except KafkaException as error:
        raise unreachable_error(connection, error) from error


def is_reachable(connection: Cluster, timeout: float) -> bool:
    """True if a broker answers a new client within `timeout` seconds."""
    client = consumer(connection)
    try:
        client.list_topics("__consumer_offsets", timeout=timeout)  # the answer for all topics may be long
        return True
    except KafkaException:
        return False
    finally:
        client.close()


def _request_metadata(client: Consumer | Producer, topic: str | None, timeout: float) -> Any:
    return (
        client.list_topics(timeout=timeout) if topic is None else client.list_topics(topic, timeout=timeout)
    )


def retry_while(request: Callable[[], _T], retriable: Collection[ErrorKind], timeout: float) -> _T:
    """Return the result of `request`. For up to `timeout` seconds, repeat it while its error is of a `retriable` kind.

    Raises `KafkaException`.
    """
    deadline = time.monotonic() + timeout
    while True:
        try:
            return request()
        except KafkaException as error:
            if error_kind(error) not in retriable or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def is_in_sync(client: Consumer, topic: str, partition: int) -> bool:
    """True if the broker reports every replica of a partition as in sync. Raises `KafkaException`."""
    metadata = client.list_topics(topic, timeout=REQUEST_TIMEOUT).topics[topic].partitions.get(partition)
    return metadata is not None and set(metadata.isrs) == set(metadata.replicas)


def is_denied(error: KafkaException | KafkaError) -> bool:
    """True if an ACL is missing."""
    return error_kind(error) is ErrorKind.DENIED


def is_client_unusable(error: BaseException) -> bool:
    """True if the client with this error is unusable from now on, usually because another client has fenced it."""
    return isinstance(error, KafkaException) and error_kind(error) is ErrorKind.CLIENT_UNUSABLE


def is_group_denied(error: KafkaError) -> bool:
    """True if the ACL for the group is missing. A reader may ignore this error: it must name a group, but never uses
    it.
    """
    return bool(error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED)


def to_error(connection: Cluster, error: KafkaException | KafkaError, required_acl: RequiredAcl) -> CqrsError:
    """Return the error to raise for an error of librdkafka; `required_acl`: the ACL that the request needed."""
    return required_acl.denied_error() if is_denied(error) else unreachable_error(connection, error)


def is_unreachable(error: KafkaError) -> bool:
    """True if the error means that no broker answered."""
    return error_kind(error) is ErrorKind.UNREACHABLE


def unreachable_error(connection: Cluster, error: KafkaException | KafkaError | str) -> UnavailableError:
    """Return the error to raise if no broker answered. A new connection is opened to find the reason, such as a
    rejected login. If this connection succeeds, the reason is `error`, the error of the request.
    """
    reason = error if isinstance(error, str) else str(kafka_error(error).str())
    return connection_error(connection) or unavailable(connection, reason)


def kafka_error(error: KafkaException | KafkaError) -> KafkaError:
    """Return the `KafkaError` in an exception of librdkafka; a `KafkaError` is returned unchanged."""
    return error.args[0] if isinstance(error, KafkaException) else error
