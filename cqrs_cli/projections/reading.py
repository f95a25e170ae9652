"""Reads one partition of events from a position on: the committed records, and how far they reach."""

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from confluent_kafka import KafkaError, TopicPartition

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.records import records_of
from cqrs_cli.projections.plan import EventPartition

#: Seconds that a log must look too short before that is believed.
_BELIEVED_AFTER = 3.0

#: Tells something worth knowing to whoever watches.
Tell = Callable[[str], None]


class Tail(Protocol):
    """A partition from a position on."""

    def poll(self, most: int) -> tuple[list[Record], int]:
        """Up to `most` records that have arrived, and the offset after them, or after what is no record."""

    def close(self) -> None: ...


class PartitionTail:
    """The tail of a partition of events. Waits for a broker that does not answer, and notes that once."""

    def __init__(self, connection: Connection, source: EventPartition, start: int, note: Tell) -> None:
        self._connection, self._source, self._note = connection, source, note
        self._silent = False
        self._position = start
        self._reader = clients.bulk_consumer(connection)
        self._reader.assign([TopicPartition(source.topic, source.partition, start)])

    def poll(self, most: int) -> tuple[list[Record], int]:
        first = self._reader.poll(0.2)
        messages = [] if first is None else [first, *self._reader.consume(most - 1, 0)]
        good = []
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._position = max(self._position, message.offset() or 0)
            elif clients.is_unreachable(error):
                if not self._silent:
                    self._note(f"no answer from {self._connection.bootstrap_server}; still trying")
                self._silent = True
            elif not clients.is_about_group(error):
                raise readers.read_failure(
                    self._connection, self._source.topic, self._source.partition, error
                )
        if good:
            self._silent = False
            self._position = max(self._position, (good[-1].offset() or 0) + 1)
        return records_of(good), self._position

    def close(self) -> None:
        self._reader.close()


def check_position(connection: Connection, name: str, source: EventPartition, position: int) -> None:
    """Raise `ContradictionError` for a position that the log does not have (any more, or yet).

    Looks for some seconds: a broker that has just become the leader may show less of a log than there is.
    """
    deadline = time.monotonic() + _BELIEVED_AFTER
    while True:
        bounds = readers.bounds(connection, source.topic, [source.partition], "read_uncommitted")
        low, high = bounds[source.partition]
        if low <= position <= high:
            return
        if time.monotonic() > deadline:
            break
        time.sleep(0.2)
    lost = f"events before {low} are deleted" if position < low else f"the log ends at {high}"
    raise ContradictionError(
        f"{source.topic} partition {source.partition}: the position is {position}, but {lost}",
        f"fill the tables again: cqrs project {name} --rebuild",
    )


def check_topic_ids(connection: Connection, name: str, topic_ids: Mapping[str, str]) -> None:
    """Raise `ContradictionError` if a topic was deleted, or made again, while its events were projected."""
    with Admin(connection) as admin:
        found = admin.describe(topic_ids)
    for topic, topic_id in topic_ids.items():
        there = found.get(topic)
        if there is None or there.topic_id != topic_id:
            raise ContradictionError(
                f"{topic} was deleted{' and made again' if there else ''} while {name} was filled from it",
                f"once its events are there, fill the tables from them: cqrs project {name} --rebuild",
            )
