"""Follows the events of one aggregate in a thread: into replicas, and into the feed of the streams."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UnavailableError
from cqrs_cli.following.gateway.feed import Feed, FeedEvent
from cqrs_cli.following.gateway.replica import Replica
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.same_topics import same_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.readers import MissingError
from cqrs_cli.kafka.tailing import Placed, events_with_data, following
from cqrs_cli.kafka.topics.partitioner import Partitioner, partition_for
from cqrs_cli.kafka.topics.topics import AggregateTopics, Kind
from cqrs_cli.ownership.timing import Lasting
from cqrs_cli.state.store import NotOwnerError

#: The topics that a gateway reads or writes.
_SERVED: tuple[Kind, ...] = ("events", "commands", "outcomes")

#: Seconds that a topic must be gone before that is believed: a broker that has just come back may not know it yet.
_MISSING = 10.0


class _Head(msgspec.Struct):
    """The parts of an event that a stream is chosen by."""

    subject: str = ""
    type: str = ""


_head = msgspec.json.Decoder(_Head).decode


class AggregateFollower:
    """The states and newest events of one aggregate, from `start` to `close`.

    `arrived` is called in the follower's thread after each batch. `error` is why it ended by itself: nothing is
    followed any more.
    """

    def __init__(
        self,
        connection: Connection,
        described: AggregateTopics,
        aggregate: Aggregate,
        partitioner: Partitioner,
        folder: Path,
        note: Callable[[str], None],
    ) -> None:
        """Raises what opening a shard raises, and `ContradictionError` if events are gone that it has not folded."""
        self.connection, self.aggregate, self.partitioner = connection, aggregate, partitioner
        self.topics, self.partitions = described.topics, described.partitions
        self._note = note
        bounds = readers.bounds(connection, self.topics.events, range(described.partitions))
        names = {described.topics.name(kind): described.ids[kind] for kind in _SERVED}
        self._same, self._gone = same_topics(connection, names, self._changed), Lasting(2 * _MISSING)
        self._goals: dict[int, int] = {}  # behind the last event that is there at the start
        self.replicas: dict[int, Replica] = {}
        with ExitStack() as undo:
            for partition, reach in bounds.items():
                log = self.log(partition)
                last = log.last_record("events", *reach)
                self._goals[partition] = 0 if last is None else last.offset + 1
                replica = Replica(log, described, aggregate, folder, reach, note)
                undo.callback(replica.close)
                self.replicas[partition] = replica
            undo.pop_all()
        self.feed = Feed({number: replica.position for number, replica in self.replicas.items()})
        self.error: CqrsError | None = None
        self.arrived: Callable[[], None] = lambda: None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"following {aggregate.name}", daemon=True)

    def log(self, partition: int) -> PartitionLog:
        """The logs of one partition."""
        return PartitionLog(self.connection, self.topics, partition, self.connection.payloads)

    def start(self) -> None:
        """Begin to follow."""
        self._thread.start()

    def stop(self) -> None:
        """Follow no further; does not wait for the end."""
        self._closing.set()

    def close(self) -> None:
        """End, and let go of the shards. Idempotent."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join()
        for replica in self.replicas.values():
            replica.close()

    @property
    def caught_up(self) -> bool:
        """True once everything is folded that was there at the start."""
        return self.error is None and self.lag() == 0

    def lag(self) -> int:
        """The offsets between what is folded and the last event that was there at the start."""
        return sum(max(0, end - self.replicas[number].position) for number, end in self._goals.items())

    def saved(self, aggregate_id: str) -> StoredState | None:
        """The aggregate as it is now, None if it does not exist."""
        only = partition_for(self.partitioner, aggregate_id.encode(), self.partitions)
        for number in range(self.partitions) if only is None else (only,):
            if (found := self.replicas[number].saved(aggregate_id)) is not None:
                return found
        return None

    def page(self, prefix: str, after: str, limit: int) -> list[tuple[str, StoredState]]:
        """Up to `limit` aggregates of all partitions in the order of their ids' UTF-8, `after` that id."""
        found = [one for replica in self.replicas.values() for one in replica.page(prefix, after, limit)]
        return sorted(found, key=lambda one: one[0].encode())[:limit]

    def count(self) -> int:
        """The number of aggregates."""
        return sum(replica.count() for replica in self.replicas.values())

    def _run(self) -> None:
        said = ""
        while self.error is None and not self._closing.is_set():
            try:
                self._follow()
            except CqrsError as error:
                self.error = self._cause(error)
                if self.error is None:
                    if error.message != said:
                        said = error.message
                        self._note(f"{self.topics.events}: {said}; still trying")
                    self._closing.wait(1.0)
            except Exception as bug:
                self.error = CqrsError(f"{self.topics.events}: {type(bug).__name__}: {bug}", "see the log")
        self.arrived()

    def _cause(self, error: CqrsError) -> CqrsError | None:
        """The error that ends the following; None for one that passes. Another topic explains any other error."""
        try:
            self._same.check()
        except UnavailableError:
            pass
        except CqrsError as changed:
            return changed
        return None if isinstance(error, (UnavailableError, MissingError)) else error

    def _changed(self, topic: str, made_again: bool) -> CqrsError | None:
        if not made_again and not self._gone.lasts(_MISSING):
            return None
        return ContradictionError(
            f"{topic} was deleted{' and made again' if made_again else ''} while it was served",
            "find out why; once it is there, start again: the states are folded from it anew",
        )

    def _follow(self) -> None:
        positions = {number: replica.position for number, replica in self.replicas.items()}
        stream = following(
            self.connection, self.topics.events, positions, lambda record: True, self._note, self._same
        )
        try:
            for arrived in stream:
                if self._closing.is_set():
                    return
                for placed in events_with_data(self.connection.payloads, self.topics.events, arrived):
                    self._take_all(placed)
        except NotOwnerError:
            raise ConfigurationError(
                f"another process follows {self.topics.events} in the same folder",
                "give each gateway a state_dir of its own",
            ) from None
        finally:
            stream.close()

    def _take_all(self, placed: list[Placed]) -> None:
        batches: dict[int, list[Record]] = {}
        for partition, record in placed:
            batches.setdefault(partition, []).append(record)
        for partition, records in batches.items():
            self._take(partition, records)
        if placed:
            self.arrived()

    def _take(self, partition: int, records: list[Record]) -> None:
        replica = self.replicas[partition]
        replica.take(records)
        for record in records:
            self.feed.add(feed_event(partition, record))


def feed_event(partition: int, record: Record) -> FeedEvent:
    """A record of an events topic for streams."""
    value = record.value or b""
    head = _head(value)
    return FeedEvent(partition, record.offset, head.subject, head.type, value.decode())
