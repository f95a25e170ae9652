"""The writer of a subscription: commits commands, position record and group offset in one transaction."""

import time
from collections.abc import Mapping, Sequence

from confluent_kafka import Consumer, TopicPartition

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.following.processes.composer import ComposedRecord
from cqrs_cli.following.processes.position import ProcessPosition, position_key
from cqrs_cli.following.processes.positions import POSITIONS_PARTITION
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.transactional import RECORD_OVERHEAD, TransactionalWriter
from cqrs_cli.observer import reached
from cqrs_cli.ownership.timing import Timing


class ReactionWriter(TransactionalWriter):
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
            topics.positions_topic,
            request_bytes,
            timing.transaction_timeout,
        )

    def commit(
        self,
        commands: Sequence[ComposedRecord],
        position: ProcessPosition,
        group_consumer: Consumer,
        child_positions: Mapping[EventPartition, ProcessPosition] | None = None,
    ) -> None:
        """Write all commands and the position, or nothing; raises the errors of `transaction`.

        `child_positions`: first positions of this partition's child partitions, after a split.
        """
        source = self._source
        group_offset = TopicPartition(
            source.topic, source.partition, position.offset, position.claim.metadata()
        )
        with self.transaction(group_consumer) as transaction:
            transaction.ensure_begun()
            transaction.position = group_offset
            self._produce_all(commands, {self._source: position, **(child_positions or {})})

    def _produce_all(
        self, commands: Sequence[ComposedRecord], positions: Mapping[EventPartition, ProcessPosition]
    ) -> None:
        deadline = time.monotonic() + self._produce_timeout
        for topic, value, key, partition, _ in commands:
            self._start_portion(len(value) + RECORD_OVERHEAD)
            self._produce(topic, (value, key, 0), HEADERS, None, deadline, partition)
        reached("produce.first", flush=self._producer.flush)
        for source, position in positions.items():
            record = (position.encode(), position_key(source), 0)
            self._produce(self._topics.positions_topic, record, None, None, deadline, POSITIONS_PARTITION)
