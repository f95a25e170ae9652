"""Follows the events of one aggregate in a thread, and updates replicas and the event buffer of the streams."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.encrypted_events import event_marks
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UnavailableError
from cqrs_cli.following.gateway.feed import EventBuffer, FeedEvent
from cqrs_cli.following.gateway.lineage import FollowedLineage
from cqrs_cli.following.gateway.replica import Replica
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topic_identity import track_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.keys_log import event_decryptor
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.readers import MissingError
from cqrs_cli.kafka.tailing import PartitionRecord, events_with_data, follow_records
from cqrs_cli.kafka.topics.partitioner import Partitioner, partition_for
from cqrs_cli.kafka.topics.topics import AggregateTopics, Kind
from cqrs_cli.keys.event_decryptor import EventDecryptor, EventRedactor
from cqrs_cli.ownership.timing import ErrorDuration
from cqrs_cli.state.store import NotOwnerError

#: The topics that a gateway reads or writes.
_SERVED: tuple[Kind, ...] = ("events", "commands", "outcomes")

#: Seconds for which a topic must be missing before the follower gives up. A broker that has just restarted may not know
#: the topic yet.
_MISSING = 10.0


class _Head(msgspec.Struct):
    """The fields of an event by which streams select events."""

    subject: str = ""
    type: str = ""


_head = msgspec.json.Decoder(_Head).decode


#: Seconds between two checks for new partitions.
_LOOK_EVERY = 5.0


class AggregateFollower:
    """The states and newest events of one aggregate, from `start` to `close`, in all partitions including new ones.

    States and buffered events contain redacted values in place of personal values, for every reader: the folder holds
    no personal data. `opener` decrypts events from the topic for the streams that may see personal values.

    The follower's thread calls `arrived` after each batch. `error` is set if an error has ended the follower.
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
        """Raises the errors of opening a shard, and `ContradictionError` if events were deleted before their fold."""
        self.connection, self.aggregate, self.partitioner = connection, aggregate, partitioner
        self.topics = described.topics
        self._described, self._folder, self._note = described, folder, note
        self._marks = event_marks(aggregate)
        self.masker = EventRedactor(self._marks)
        keys = (
            connection.keys
        )  # each page of a stream reads them again, because each stream has a position of its own
        self.opener = event_decryptor(connection, keys, self.topics, self._marks, max_key_age=0)
        self.lineage = FollowedLineage(connection, self.topics, self.log)
        names = {described.topics.name(kind): described.ids[kind] for kind in _SERVED}
        self._same, self._gone = track_topics(connection, names, self._changed), ErrorDuration(2 * _MISSING)
        self._goals: dict[int, int] = {}  # the offset after the last event of each partition at the start
        self.replicas: dict[int, Replica] = {}
        self._followed: frozenset[int] = frozenset()
        self.feed = EventBuffer({})
        with ExitStack() as undo:
            undo.callback(self._close_replicas)
            self._goals = self._open(described.partitions)
            undo.pop_all()
        self.error: CqrsError | None = None
        self.arrived: Callable[[], None] = lambda: None
        self._closing, self._curious = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"following {aggregate.name}", daemon=True)

    def open_events(self, only: str) -> EventDecryptor:
        """Return a decryptor of personal values, for the aggregate `only`; close it after use."""
        return event_decryptor(self.connection, self.connection.keys, self.topics, self._marks, only)

    def log(self, partition: int) -> PartitionLog:
        """Return the logs of one partition."""
        return PartitionLog(self.connection, self.topics, partition, self.connection.payloads)

    @property
    def partitions(self) -> int:
        """The number of partitions that have a replica."""
        return len(self.replicas)

    def look_for(self, partition: int) -> None:
        """Trigger an early check for new partitions if this partition is not followed yet."""
        if partition not in self._followed:
            self._curious.set()

    def _open(self, count: int) -> dict[int, int]:
        """Open the missing replicas for the first `count` partitions; return the offset after the last event of each.

        Partitions without an entry in the partition history get no replica, because they have no keys yet.
        """
        goals, lineage = {}, self.lineage.learn(count)
        partitions = range(self.partitions, min(count, lineage.counts[-1]))
        for partition, reach in readers.bounds(self.connection, self.topics.events, partitions).items():
            log, parent = self.log(partition), self.lineage.parent(partition)
            last = log.last_record("events", *reach)
            goals[partition] = 0 if last is None else last.offset + 1
            first = lineage.first_count(partition)
            before = None if parent is None else self.replicas[parent]
            args = log, self._described, self.aggregate, self._folder, reach, self._note, first, before
            self.replicas = {**self.replicas, partition: Replica(*args)}
            self.feed.begin(partition, self.replicas[partition].position)
        return goals

    def _has_grown(self) -> bool:
        """Return True if there are more partitions to follow: added partitions, or pending ones that may be read."""
        count = readers.partition_count(self.connection, self.topics.events)
        if count > self.partitions or len(self._followed) < self.partitions:
            self._open(count)
        return self._followable().keys() != self._followed

    def _followable(self) -> dict[int, int]:
        """Return the positions of the partitions that are being read or may be read now."""
        positions = {number: replica.position for number, replica in self.replicas.items()}
        return {one: at for one, at in positions.items() if at or self.lineage.may_begin(one, positions)}

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Signal the thread to stop, without waiting for it."""
        self._closing.set()

    def close(self) -> None:
        """Stop the thread and close the shards. Idempotent."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._close_replicas()
        self.opener.close()

    def _close_replicas(self) -> None:
        for replica in self.replicas.values():
            replica.close()

    @property
    def caught_up(self) -> bool:
        """True once all events that existed at the start are folded."""
        return self.error is None and self.lag() == 0

    def lag(self) -> int:
        """Return the number of offsets between the folded positions and the last events at the start."""
        return sum(max(0, end - self.replicas[number].position) for number, end in self._goals.items())

    def saved(self, aggregate_id: str) -> StoredState | None:
        """Return the current state of an aggregate; None if it does not exist."""
        only = partition_for(self.partitioner, aggregate_id.encode(), self.partitions)
        for number in self.replicas if only is None else (only,):
            if (found := self.replicas[number].saved(aggregate_id)) is not None:
                return found
        return None

    def page(self, prefix: str, after: str, limit: int) -> list[tuple[str, StoredState]]:
        """Return up to `limit` aggregates of all partitions after the id `after`, ordered by the UTF-8 of their ids."""
        found: dict[str, StoredState] = {}
        # A target partition comes after its parent, and its state of an inherited aggregate is newer.
        for replica in self.replicas.values():
            found |= dict(replica.page(prefix, after, limit))
        return sorted(found.items(), key=lambda one: one[0].encode())[:limit]

    def count(self) -> int:
        """Return the number of aggregates."""
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
        """Return the error that ends the follower; None for a temporary error.

        A deleted or recreated topic takes precedence, because it explains every other error.
        """
        try:
            self._same.check_ids()
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
        positions, looked = self._followable(), time.monotonic()
        self._followed = frozenset(positions)
        stream = follow_records(
            self.connection, self.topics.events, positions, lambda record: True, self._note, self._same
        )
        try:
            for arrived in stream:
                if self._closing.is_set():
                    return
                payloads, topic = self.connection.payloads, self.topics.events
                stored = _by_partition(arrived)
                for placed in events_with_data(payloads, topic, arrived, self.masker):
                    self._take_all(placed, stored)
                if self._curious.is_set() or time.monotonic() - looked > _LOOK_EVERY:
                    self._curious.clear()
                    if self._has_grown():
                        return
                    looked = time.monotonic()
        except NotOwnerError:
            raise ConfigurationError(
                f"another process follows {self.topics.events} in the same folder",
                "give each gateway a state_dir of its own",
            ) from None
        finally:
            stream.close()

    def _take_all(self, placed: list[PartitionRecord], stored: Mapping[int, list[Record]]) -> None:
        for partition, records in _by_partition(placed).items():
            self.replicas[partition].take(records, stored[partition])
            for record in records:
                self.feed.add(feed_event(partition, record))
        if placed:
            self.arrived()


def _by_partition(placed: list[PartitionRecord]) -> dict[int, list[Record]]:
    batches: dict[int, list[Record]] = {}
    for partition, record in placed:
        batches.setdefault(partition, []).append(record)
    return batches


def feed_event(partition: int, record: Record) -> FeedEvent:
    """Convert a record of an events topic for the event buffer."""
    value = record.value or b""
    head = _head(value)
    return FeedEvent(partition, record.offset, head.subject, head.type, value.decode())
