"""The only writer of a subscription: commands, position record and group offset in one transaction."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from cqrs_cli import failpoints
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.following.processes.compose import ComposedCommand
from cqrs_cli.following.processes.position import ProcessPosition, position_key
from cqrs_cli.following.processes.positions import POSITIONS_PARTITION
from cqrs_cli.kafka.clients import kafka_error
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.transactional import FLUSH_TIMEOUT, TransactionalWriter
from cqrs_cli.kafka.write_errors import BatchLateError
from cqrs_cli.ownership.timing import Timing

#: Approximate bytes of a record without its value: key, headers and record fields.
_RECORD_OVERHEAD = 128

_HEADERS: Any = HEADERS  # the stubs want a list of a wider type


class CommandWriter(TransactionalWriter):
    """Writes the commands and positions for one events partition of a process manager."""

    def __init__(
        self,
        connection: Connection,
        topics: ProcessTopics,
        source: EventPartition,
        request_bytes: int,
        timing: Timing,
    ) -> None:
        self._topics, self._source, self._produce_timeout = topics, source, timing.produce_timeout
        super().__init__(
            connection,
            topics.transactional_id(source.topic, source.partition),
            topics.positions,
            request_bytes,
            timing.transaction_timeout,
        )

    def commit(
        self,
        commands: Sequence[ComposedCommand],
        position: ProcessPosition,
        group_consumer: Consumer,
        target_positions: Mapping[EventPartition, ProcessPosition] | None = None,
    ) -> None:
        """Write all commands and the position, or nothing; raises the errors of `transaction`.

        `target_positions`: first positions of this partition's child partitions, after a split.
        """
        source = self._source
        group_offset = TopicPartition(
            source.topic, source.partition, position.offset, position.claim.metadata()
        )
        with self.transaction(group_consumer) as transaction:
            transaction.ensure_begun()
            transaction.position = group_offset
            try:
                self._produce(commands, {self._source: position, **(target_positions or {})})
            except KafkaException as error:
                if kafka_error(error).code() == KafkaError._STATE:
                    self._send_offset(
                        group_consumer, group_offset
                    )  # a record has failed; this call raises its error
                raise

    def _produce(
        self, commands: Sequence[ComposedCommand], positions: Mapping[EventPartition, ProcessPosition]
    ) -> None:
        self._send(commands, time.monotonic() + self._produce_timeout)
        failpoints.reached("produce.first", self._producer.flush)
        for source, position in positions.items():
            key = position_key(source)
            self._producer.produce(self._topics.positions, position.encode(), key, POSITIONS_PARTITION)

    def _send(self, commands: Sequence[ComposedCommand], deadline: float) -> None:
        """Produce in portions of one request, each waiting for the previous portion (see `kafka.writer`)."""
        produce, unsent = self._producer.produce, 0
        for topic, value, key, partition, _ in commands:
            size = len(value) + _RECORD_OVERHEAD
            if unsent + size > self._request_bytes:
                self._producer.flush(FLUSH_TIMEOUT)  # `_finish` checks for failures
                unsent = 0
            unsent += size
            while True:
                try:
                    produce(topic, value, key, partition, None, None, 0, _HEADERS)
                    break
                except BufferError:
                    if time.monotonic() > deadline:
                        raise BatchLateError(
                            "producing took longer than half the transaction's time"
                        ) from None
                    self._producer.poll(0.05)
