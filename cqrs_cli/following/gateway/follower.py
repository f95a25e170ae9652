"""Follows the events of one aggregate in a thread: folds them into replicas, and appends them to the event buffer."""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from cqrs_cli.client.codecs import decrypting_codec, redacting_codec
from cqrs_cli.codec.record_codec import RecordCodec
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import StoredState
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UnavailableError
from cqrs_cli.following.gateway.event_buffer import EventBuffer, to_stream_event
from cqrs_cli.following.gateway.replica import Replica
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topic_identity import track_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.readers import MissingPartitionError
from cqrs_cli.kafka.tailing import PartitionRecord, decode_by_partition, follow_records
from cqrs_cli.kafka.topics.partitioner import Partitioner, partition_for
from cqrs_cli.kafka.topics.topics import AggregateTopics, Kind
from cqrs_cli.keyspace.followed_key_space import FollowedKeySpace, key_space_at_events
from cqrs_cli.observer import message_listener, observing
from cqrs_cli.ownership.timing import ErrorDuration
from cqrs_cli.state.store import NotOwnerError

#: The topics that a gateway reads or writes.
_USED_KINDS: tuple[Kind, ...] = ("events", "commands", "outcomes")

#: Seconds for which a topic must be missing before the follower gives up. A broker that has just restarted may not know
#: the topic yet.
_MISSING_TIMEOUT = 10.0


#: Seconds between two checks for new partitions.
_PARTITIONS_INTERVAL = 5.0


class AggregateFollower:
    """Keeps the states and newest events of one aggregate up to date, from `start` to `close`, in all partitions. It
    finds partitions that were added since.

    Personal values are redacted in states, and null in buffered events. So the gateway stores no personal data.
    `decrypting_codec` decrypts events from the topic for the streams that may see personal values.

    The follower's thread calls `on_arrival` after each batch. `error`: the error that has ended the follower, or None.
    """

    def __init__(
        self,
        connection: Connection,
        aggregate_topics: AggregateTopics,
        aggregate: Aggregate,
        partitioner: Partitioner,
        folder: Path,
        report: Callable[[str], None],
    ) -> None:
        """Raises the errors of opening a shard, and `ContradictionError` if events were deleted before they were
        folded.
        """
        self.connection, self.aggregate, self.partitioner = connection, aggregate, partitioner
        self.topics = aggregate_topics.topics
        self._aggregate_topics, self._folder, self._report = aggregate_topics, folder, report
        self._is_outage_reported = False
        self.redacting_codec = redacting_codec(connection, aggregate)
        # `max_key_age=0`: the keys are read again for each page, because streams at different positions share this
        # codec.
        self.decrypting_codec = decrypting_codec(connection, self.topics, aggregate, max_key_age=0)
        first_count = aggregate_topics.partitions  # used if the aggregate is never repartitioned
        self.key_space = FollowedKeySpace(
            key_space_at_events(connection, self.topics, partitioner, first_count, self.log)
        )
        names = {aggregate_topics.topics.name(kind): aggregate_topics.ids[kind] for kind in _USED_KINDS}
        self._topic_identity, self._missing_duration = (
            track_topics(connection, names, self._topic_error),
            ErrorDuration(2 * _MISSING_TIMEOUT),
        )
        self._ends_at_start: dict[
            int, int
        ] = {}  # the offset after the last event of each partition at the start
        self.replicas: dict[int, Replica] = {}
        self._followed_partitions: frozenset[int] = frozenset()
        self.event_buffer = EventBuffer({})
        with ExitStack() as undo:
            undo.callback(self._close_replicas)
            self._ends_at_start = self._open_replicas(aggregate_topics.partitions)
            undo.pop_all()
        self.error: CqrsError | None = None
        self.on_arrival: Callable[[], None] = lambda: None
        self._stopping, self._check_requested = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"following {aggregate.name}", daemon=True)

    def open_codec(self, aggregate_id: str) -> RecordCodec:
        """Return a codec that decrypts the personal values of the aggregate `aggregate_id`; close it after use."""
        return decrypting_codec(self.connection, self.topics, self.aggregate, aggregate_id)

    def log(self, partition: int) -> PartitionLog:
        """Return the logs of one partition."""
        return PartitionLog(self.connection, self.topics, partition, self.connection.payload_codec())

    @property
    def partition_count(self) -> int:
        """The number of partitions that have a replica."""
        return len(self.replicas)

    def check_for_partition(self, partition: int) -> None:
        """Trigger an early check for new partitions if this partition is not followed yet."""
        if partition not in self._followed_partitions:
            self._check_requested.set()

    def _open_replicas(self, count: int) -> dict[int, int]:
        """Open the missing replicas for the first `count` partitions; return the offset after the last event of each.

        Partitions without an entry in the partition history get no replica, because they have no keys yet.
        """
        ends_at_start, key_space = {}, self.key_space.refresh()
        partitions = range(self.partition_count, min(count, len(key_space.partitions)))
        for partition, bounds in readers.bounds(self.connection, self.topics.events, partitions).items():
            log, parent = self.log(partition), key_space.parent(partition)
            last_event = log.last_record("events", *bounds)
            ends_at_start[partition] = 0 if last_event is None else last_event.offset + 1
            initial_count = key_space.initial_count(partition)
            parent_replica = None if parent is None else self.replicas[parent]
            replica_arguments = (
                log,
                self._aggregate_topics,
                self.aggregate,
                self._folder,
                bounds,
                initial_count,
                parent_replica,
            )
            with observing(message_listener(self._report)):
                self.replicas = {**self.replicas, partition: Replica(*replica_arguments)}
            self.event_buffer.add_partition(partition, self.replicas[partition].position)
        return ends_at_start

    def _has_new_partitions(self) -> bool:
        """Return True if there are more partitions to follow: new partitions, or partitions whose parents have been
        folded up to the split.
        """
        count = readers.partition_count(self.connection, self.topics.events)
        if count > self.partition_count or len(self._followed_partitions) < self.partition_count:
            self._open_replicas(count)
        return self._readable_positions().keys() != self._followed_partitions

    def _readable_positions(self) -> dict[int, int]:
        """Return partition → position, for the partitions that are being read or may be read now."""
        positions = {partition: replica.position for partition, replica in self.replicas.items()}
        return {
            partition: position
            for partition, position in positions.items()
            if position or self.key_space.current.is_ready(partition, positions)
        }

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Signal the thread to stop, without waiting for it."""
        self._stopping.set()

    def close(self) -> None:
        """Stop the thread and close the shards. Idempotent."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join()
        self._close_replicas()
        self.decrypting_codec.close()

    def _close_replicas(self) -> None:
        for replica in self.replicas.values():
            replica.close()

    @property
    def is_caught_up(self) -> bool:
        """True once all events that existed at the start are folded."""
        return self.error is None and self.lag() == 0

    def lag(self) -> int:
        """Return the number of offsets that existed at the start and are not folded yet."""
        return sum(
            max(0, end - self.replicas[partition].position) for partition, end in self._ends_at_start.items()
        )

    def state_of(self, aggregate_id: str) -> StoredState | None:
        """Return the current state of an aggregate; None if it does not exist."""
        own_partition = partition_for(self.partitioner, aggregate_id.encode(), self.partition_count)
        for partition in self.replicas if own_partition is None else (own_partition,):
            if (stored_state := self.replicas[partition].state_of(aggregate_id)) is not None:
                return stored_state
        return None

    def list_aggregates(self, prefix: str, after: str, limit: int) -> list[tuple[str, StoredState]]:
        """Return up to `limit` aggregates of all partitions after the id `after`, ordered by the UTF-8 of their ids."""
        states: dict[str, StoredState] = {}
        # A child partition comes after its parent. If both have a state of an aggregate, the child's state is newer.
        for replica in self.replicas.values():
            states |= dict(replica.list_aggregates(prefix, after, limit))
        return sorted(states.items(), key=lambda item: item[0].encode())[:limit]

    def aggregate_count(self) -> int:
        """Return the number of aggregates."""
        return sum(replica.aggregate_count() for replica in self.replicas.values())

    def _run(self) -> None:
        while self.error is None and not self._stopping.is_set():
            try:
                self._follow()
            except CqrsError as error:
                self.error = self._cause(error)
                if self.error is None:
                    self._report_outage(f"{self.topics.events}: {error.message}; still trying")
                    self._stopping.wait(1.0)
            except Exception as bug:
                self.error = CqrsError(f"{self.topics.events}: {type(bug).__name__}: {bug}", "see the log")
        self.on_arrival()

    def _report_outage(self, text: str) -> None:
        """Report that events cannot be read. The report is not repeated until events were read again."""
        if not self._is_outage_reported:
            self._report(text)
        self._is_outage_reported = True

    def _cause(self, error: CqrsError) -> CqrsError | None:
        """Return the error that ends the follower; None for a temporary error.

        A deleted or recreated topic takes precedence, because it explains every other error.
        """
        try:
            self._topic_identity.check_ids()
        except UnavailableError:
            pass
        except CqrsError as topic_error:
            return topic_error
        return None if isinstance(error, (UnavailableError, MissingPartitionError)) else error

    def _topic_error(self, topic: str, recreated: bool) -> CqrsError | None:
        if not recreated and not self._missing_duration.persists_for(_MISSING_TIMEOUT):
            return None
        return ContradictionError(
            f"{topic} was {'recreated' if recreated else 'deleted'} while the gateway read it",
            "find out why; once the topic exists, start the gateway again: it folds all states from the new topic",
        )

    def _follow(self) -> None:
        positions, last_check = self._readable_positions(), time.monotonic()
        self._followed_partitions = frozenset(positions)
        stream = follow_records(
            self.connection,
            self.topics.events,
            positions,
            lambda record: True,
            self._report_outage,
            self._topic_identity,
        )
        try:
            for records in stream:
                if self._stopping.is_set():
                    return
                log_records = _by_partition(records)
                for batch in decode_by_partition(self.redacting_codec, self.topics.events, records):
                    self._fold_batch(batch, log_records)
                if self._check_requested.is_set() or time.monotonic() - last_check > _PARTITIONS_INTERVAL:
                    self._check_requested.clear()
                    if self._has_new_partitions():
                        return
                    self._is_outage_reported = False
                    last_check = time.monotonic()
        except NotOwnerError:
            raise ConfigurationError(
                f"another process folds {self.topics.events} into the same folder",
                "give each gateway its own folder: cqrs serve --state-dir DIR",
            ) from None
        finally:
            stream.close()

    def _fold_batch(self, batch: list[PartitionRecord], log_records: Mapping[int, list[Record]]) -> None:
        """Fold a decoded batch. `log_records`: by partition, the same records before they were decoded."""
        for partition, records in _by_partition(batch).items():
            self.replicas[partition].fold(records, log_records[partition])
            for record in records:
                self.event_buffer.append(to_stream_event(partition, record, self.aggregate))
        if batch:
            self.on_arrival()


def _by_partition(batch: list[PartitionRecord]) -> dict[int, list[Record]]:
    batches: dict[int, list[Record]] = {}
    for partition, record in batch:
        batches.setdefault(partition, []).append(record)
    return batches
