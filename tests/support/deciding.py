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


class Owner:
    """Decides for all partitions of an aggregate."""

    def __init__(self, connection: Connection, topics: Topics, aggregate: Aggregate) -> None:
        self.connection, self.topics, self.aggregate = connection, topics, aggregate
        self.positions = dict.fromkeys(range(readers.partition_count(connection, topics.commands)), 0)
        self.states: dict[str, VersionedState] = {}
        self.remembered: dict[tuple[str, str], DedupEntry] = {}

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
                    lambda subject, id: self.remembered.get((subject, id)),
                    lambda: time.time_ns() // 1_000_000,
                    topic=self.topics.commands,
                )
                decided = decide_batch(self.aggregate, records, context)
                self.states |= decided.states
                self.remembered |= decided.dedup_entries
                self._write(partition, decided)

    def _write(self, partition: int, decided: Decisions) -> None:
        producer = clients.producer(self.connection)
        for topic, outputs in (
            (self.topics.events, decided.events),
            (self.topics.outcomes, decided.outcomes),
        ):
            for value, key, timestamp in outputs:
                producer.produce(topic, value, key, partition, timestamp=timestamp, headers=list(HEADERS))
        for dead in decided.dead_letters:
            headers: list[tuple[str, str | bytes | None]] = list(dead.headers)
            topic = self.topics.dead_letters
            producer.produce(
                topic, dead.value, dead.key, partition, timestamp=dead.timestamp, headers=headers
            )
        producer.flush()

    @contextmanager
    def deciding(self) -> Iterator[None]:
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
