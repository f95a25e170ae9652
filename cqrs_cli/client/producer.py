"""The producer of commands: idempotent, with acks=all, and with the project's partitioner."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.errors import ConfigurationError, CqrsError
from cqrs_cli.kafka import clients
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.error_kinds import ErrorKind, error_kind
from cqrs_cli.kafka.topics.acls import RequiredAcl
from cqrs_cli.kafka.topics.partitioner import Partitioner, producer_partition

#: Called with the partition and offset of a delivered command.
OnDelivered = Callable[[int, int], None]

#: Called with the error of a command that was not delivered.
OnFailure = Callable[[CqrsError], None]

#: A bulk producer delivers each command within this time, or the command fails.
BULK_DELIVERY_TIMEOUT = timedelta(minutes=2)

#: The maximum size in bytes of a bulk producer's batch. A command of at least this size is alone in its batch.
BULK_BATCH_BYTES = 1_000_000

#: librdkafka's properties: of a producer for single commands, which sends at once, and of a bulk producer.
_SINGLE_CONFIG: dict[str, Any] = {"linger_ms": 0, "delivery_timeout_ms": 30_000}
_BULK_CONFIG: dict[str, Any] = {
    "linger_ms": 50,
    "batch_size": BULK_BATCH_BYTES,
    "queue_buffering_max_messages": 500_000,
    "delivery_timeout_ms": BULK_DELIVERY_TIMEOUT // timedelta(milliseconds=1),
}

#: Errors after which a command may be resent with its id: it is decided once, however often it is in the log.
_RETRIABLE = {
    ErrorKind.UNREACHABLE,
    ErrorKind.NO_LEADER,
    ErrorKind.NO_COORDINATOR,
    ErrorKind.RETRIABLE,
    ErrorKind.CLIENT_UNUSABLE,
    ErrorKind.DELIVERY_TIMEOUT,
}

#: Number of sends between two polls for delivery reports.
_SENDS_PER_POLL = 1000

#: The error codes in the delivery reports of commands that fail because of a fatal error of the producer.
_FATAL_CODES = (KafkaError._FATAL, KafkaError._PURGE_QUEUE)

#: Seconds to wait for the fatal error after a delivery report with one of these codes.
_FATAL_TIMEOUT = 1.0


class CommandTooLargeError(CqrsError):
    """The record of a command is larger than the topic allows."""


class CommandProducer:
    """Sends commands. Use it as a context manager. After the first command that failed, each call raises its error.

    `bulk`: True for many commands. `reports`: False to get delivery reports only for commands that fail, which makes
    sending a fifth faster.
    """

    def __init__(
        self, connection: Connection, partitioner: Partitioner, *, bulk: bool = False, reports: bool = True
    ) -> None:
        self.sent_count = 0
        self._failed_count = 0
        self._failure: tuple[str, KafkaError] | None = None  # topic and error of the first failed command
        self._fatal: KafkaError | None = None
        self._connection, self._codec = connection, connection.payload_codec()
        self._partitioner = partitioner
        self._partition_counts: dict[str, int] = {}  # topic → partition count
        self._producer = clients.producer(
            connection,
            allow_auto_create_topics=False,
            delivery_report_only_error=not reports,
            message_max_bytes=100_000_000,  # the topic's limit applies, not librdkafka's default of 1,000,000
            **(_BULK_CONFIG if bulk else _SINGLE_CONFIG),
        )
        # Wait until the idempotent producer has requested its producer id, which it does after 1 ms. If another request
        # is just opening the connection then, the producer finds no connection, and retries only after 500 ms
        # (measured: in 5 of 12 sends).
        self._run_callbacks(self._producer.poll, 0.005)

    def __enter__(self) -> "CommandProducer":
        return self

    def __exit__(self, *_: object) -> None:
        self.discard_queued()

    @property
    def delivered_count(self) -> int:
        """The number of commands that were delivered; exact after `flush` or `discard_queued`."""
        return self.sent_count - self._failed_count - len(self._producer)

    def partition_count(self, topic: str) -> int:
        """Return the topic's partition count; raise `ConfigurationError` if the topic does not exist."""
        count = self._partition_counts.get(topic)
        if count is None:
            count = self._partition_counts[topic] = self._fetch_partition_count(topic)
        return count

    def forget_partition_count(self, topic: str) -> None:
        """Forget the topic's partition count after a repartitioning: the next command reads it again."""
        self._partition_counts.pop(topic, None)

    def _fetch_partition_count(self, topic: str) -> int:
        metadata = clients.fetch_metadata(self._connection, self._producer, topic).topics[topic]
        if metadata.error is not None and error_kind(metadata.error) is not ErrorKind.UNKNOWN_PARTITION:
            raise send_failure(self._connection, topic, metadata.error)
        if not metadata.partitions:
            raise ConfigurationError(f"topic {topic} does not exist", "create it: cqrs init")
        return len(metadata.partitions)

    def partition_of(self, topic: str, key: bytes) -> int:
        """Return the partition to which `send` sends this key."""
        return producer_partition(self._partitioner, key, self.partition_count(topic))

    def send(
        self,
        topic: str,
        key: bytes,
        value: bytes,
        on_delivered: OnDelivered | None = None,
        on_failure: OnFailure | None = None,
    ) -> None:
        """Queue one command; `on_delivered` is called from a later `send`, `poll` or `flush`. Large data are first
        uploaded to the payload store.

        Raises `PayloadUnavailableError` if the upload fails; nothing is sent then. Raises `CqrsError` if an earlier
        command has failed. `on_failure`, if given, gets the error of this command, and later calls do not raise it.
        """
        value, payloads = self._codec.replace_large_data(topic, value)
        self._codec.upload(topic, payloads)
        has_callback = on_delivered is not None or on_failure is not None
        report = self._delivery_callback(on_delivered, on_failure) if has_callback else self._on_failure
        partition = self.partition_of(topic, key)
        while True:
            try:
                self._producer.produce(topic, value, key, partition, report, None, 0, HEADERS)  # type: ignore[arg-type]
                break
            except BufferError:
                self._run_callbacks(self._producer.poll, 0.05)
            except KafkaException as error:
                raise self._failure_error(topic, clients.kafka_error(error)) from error
        self.sent_count += 1
        if self.sent_count % _SENDS_PER_POLL == 0:
            self.poll()

    def poll(self) -> None:
        """Process the delivery reports so far; raise `CqrsError` if a command has failed."""
        self._run_callbacks(self._producer.poll, 0)
        self._raise_failure()

    def flush(self) -> None:
        """Wait until all commands are delivered; raise `CqrsError` if a command has failed."""
        while self._flush():
            self._raise_failure()
        self._raise_failure()

    def discard_queued(self) -> None:
        """Drop the queued commands, and wait for the commands in flight: `delivered_count` is exact afterwards."""
        self._producer.purge(in_queue=True, in_flight=False, blocking=True)
        while self._flush():
            pass  # the delivery timeout limits the wait

    def _flush(self) -> int:
        """Wait at most 0.2 s, so that Ctrl-C is handled soon; return the number of undelivered commands."""
        try:
            self._run_callbacks(self._producer.flush, 0.2)
        except SystemError as error:  # the binding raises this for a Ctrl-C during a delivery report
            raise KeyboardInterrupt from error
        return len(self._producer)

    def _run_callbacks(self, call: Callable[[float], object], seconds: float) -> None:
        """Call librdkafka, which calls the callbacks, and keep a fatal error that it raises. The commands that fail
        because of a fatal error only get one of the `_FATAL_CODES` in their delivery reports.
        """
        try:
            call(seconds)
        except KafkaException as error:
            self._fatal = clients.kafka_error(error)

    def _to_error(self, topic: str, error: KafkaError) -> CqrsError:
        """Return the error of a command. If a fatal error was its cause, return the fatal error, which the
        delivery report of the command does not contain.
        """
        if self._fatal is not None and error.code() in _FATAL_CODES:
            error = self._fatal
        return send_failure(self._connection, topic, error)

    def _failure_error(self, topic: str, error: KafkaError) -> CqrsError:
        """Return the error of a command, as `_to_error` does, but outside of delivery reports. Wait for a fatal error:
        librdkafka may raise it after the delivery reports of the commands that failed because of it.
        """
        deadline = time.monotonic() + _FATAL_TIMEOUT
        while error.code() in _FATAL_CODES and self._fatal is None and time.monotonic() < deadline:
            self._run_callbacks(self._producer.poll, 0.05)
        return self._to_error(topic, error)

    def _delivery_callback(
        self, on_delivered: OnDelivered | None, on_failure: OnFailure | None
    ) -> Callable[[KafkaError | None, Message], None]:
        def report(error: KafkaError | None, message: Message) -> None:
            partition, offset = message.partition(), message.offset()
            if error is None and partition is not None and offset is not None:
                if on_delivered is not None:
                    on_delivered(partition, offset)
            elif on_failure is not None and error is not None:
                self._failed_count += 1
                on_failure(self._to_error(message.topic() or "?", error))
            else:
                self._on_failure(error, message)

        return report

    def _on_failure(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failed_count += 1
            self._failure = self._failure or (message.topic() or "?", error)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure_error(*self._failure)


def send_failure(connection: Connection, topic: str, error: KafkaError) -> CqrsError:
    """Return the error for a command that Kafka did not accept."""
    match error_kind(error):
        case ErrorKind.TOO_LARGE:
            return CommandTooLargeError(
                f"a command is larger than {topic} allows", "raise its max.message.bytes"
            )
        case ErrorKind.DENIED:
            return RequiredAcl("Write", "topic", topic).denied_error()
        case ErrorKind.UNKNOWN_PARTITION:
            return ConfigurationError(f"topic {topic} does not exist", "create it: cqrs init")
        case kind if kind in _RETRIABLE:
            return clients.unreachable_error(connection, error)
    return CqrsError(f"{topic}: {error.str()}", "find the cause: cqrs doctor")
