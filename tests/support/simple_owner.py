"""An owner for tests of the command line: it decides like a real owner, but without transactions, claims and shards."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, Decisions
from cqrs_cli.core.decide import decide_batch
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.stored import DedupEntry
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics


class SimpleOwner:
    """Decides for all partitions of an aggregate."""

    def __init__(self, connection: Connection, topics: Topics, aggregate: Aggregate) -> None:
        self.connection, self.topics, self.aggregate = connection, topics, aggregate
        self.positions = dict.fromkeys(range(readers.partition_count(connection, topics.commands)), 0)
        self.states: dict[str, VersionedState] = {}
        self.dedup_entries: dict[tuple[str, str], DedupEntry] = {}

    def decide(self) -> None:
        """Decide all commands that exist now."""
        for partition, (_, end) in readers.bounds(
            self.connection, self.topics.commands, self.positions
        ).items():
            start, self.positions[partition] = self.positions[partition], end
            for records in readers.read(self.connection, self.topics.commands, partition, start, end):
                context = BatchContext(
                    partition,
                    self.states.get,
                    lambda subject, id: self.dedup_entries.get((subject, id)),
                    lambda: time.time_ns() // 1_000_000,
                    topic=self.topics.commands,
                )
                decisions = decide_batch(self.aggregate, records, context)
                self.states |= decisions.states
                self.dedup_entries |= decisions.dedup_entries
                self._write(partition, decisions)

    def _write(self, partition: int, decisions: Decisions) -> None:
        producer = clients.producer(self.connection)
        for topic, outputs in (
            (self.topics.events, decisions.events),
            (self.topics.outcomes, decisions.outcomes),
        ):
            for value, key, timestamp in outputs:
                producer.produce(topic, value, key, partition, timestamp=timestamp, headers=list(HEADERS))
        for dead_letter in decisions.dead_letters:
            headers: list[tuple[str, str | bytes | None]] = list(dead_letter.headers)
            topic = self.topics.dead_letters
            producer.produce(
                topic,
                dead_letter.value,
                dead_letter.key,
                partition,
                timestamp=dead_letter.timestamp,
                headers=headers,
            )
        producer.flush()

    @contextmanager
    def decide_in_background(self) -> Iterator[None]:
        """Decide in the background while the block lasts."""
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                self.decide()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
