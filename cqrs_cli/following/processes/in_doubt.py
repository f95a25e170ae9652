"""Resolves an in-doubt transaction of a process manager's writer: commits or aborts it on all partitions.

Kafka may complete a transaction, and still leave it open on some partitions (`deciding.in_doubt`). There it hides
positions from the process manager, and commands from their owners. The writer's next write to these partitions would
commit or abort the transaction arbitrarily, so it must be resolved before each fence.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec
from confluent_kafka import KafkaException
from msgspec import Struct

from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.reaction_id import ReactionId, process_source, read_reaction_id
from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.following.processes.plan import ProcessPlan, Subscription
from cqrs_cli.following.processes.position import ProcessPosition, position_key, read_position
from cqrs_cli.following.processes.positions import POSITIONS_PARTITION, read_positions
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.clients import consumer, is_denied
from cqrs_cli.kafka.offsets import PENDING_COMMIT_TIMEOUT, GroupCommit, committed_offsets, has_pending_commit
from cqrs_cli.observer import reached
from cqrs_cli.ownership.open_transactions import resolution_text

#: (topic, partition).
_TopicPartition = tuple[str, int]


class ReactionTraces(NamedTuple):
    """The traces of the writer's last transaction. A visible record is committed; a hidden record belongs to a
    transaction that is still open on the record's partition.

    Sample: `ReactionTraces(7, False, True, True)` has a hidden position record, whose offset is committed in the group.
    """

    #: Offset of the next event in the last visible position record; -1 without such a record.
    visible_offset: int
    is_visible_in_group: bool  # True if the group's offset was committed with the visible position record
    has_hidden_position: bool
    #: True if the group's offset was committed with the hidden position record.
    is_hidden_in_group: bool = False
    has_visible_command: bool = False  # True if a command for an event between the two positions is visible
    hidden_event_offset: int | None = None  # offset of the event that caused the first hidden command


def must_commit(traces: ReactionTraces) -> bool:
    """Return True if a part of the in-doubt transaction is committed: then the rest must be committed, too.

    Each transaction writes commands and a position record, whose position is after the events of these commands. It
    also commits this position as the group's offset.
    """
    if traces.has_hidden_position:
        return traces.is_hidden_in_group or traces.has_visible_command
    if traces.hidden_event_offset is not None:
        return traces.hidden_event_offset < traces.visible_offset
    return traces.visible_offset >= 0 and not traces.is_visible_in_group  # only the offset is pending


def resolve_in_doubt_transaction(plan: ProcessPlan, subscription: Subscription, offset_pending: bool) -> bool:
    """Resolve an in-doubt transaction of the writer, and report it to the operator. Return True if there was one.

    The writer is fenced first, so that Kafka ends a transaction that is only open, not in doubt. `offset_pending`: the
    group's offset may be stuck as pending. Without the ACL to read the commands topics, nothing happens. Raises
    `UnavailableError` and `KafkaException` while Kafka does not respond: no write is allowed before the transaction is
    resolved.
    """
    try:
        was_committed = _InDoubtTransaction(plan, subscription).resolve(offset_pending)
    except UnavailableError:
        raise
    except KafkaException as error:
        if is_denied(error):
            return False
        raise
    except (CqrsError, ValueError):
        return False
    if was_committed is None:
        return False
    reached("message", text=f"{subscription}: {resolution_text(was_committed)}")
    return True


class _CommandId(Struct):
    id: str = ""
    source: str = ""


class _InDoubtTransaction:
    """Finds and ends the in-doubt transaction of a subscription's writer."""

    def __init__(self, plan: ProcessPlan, subscription: Subscription) -> None:
        self._plan, self._source, self._topics = plan, subscription.source, plan.topics(subscription)
        self._connection = plan.connection
        self._key = position_key(subscription.source)
        self._positions: _TopicPartition = (self._topics.positions_topic, POSITIONS_PARTITION)
        self._command_partitions: list[_TopicPartition] = [
            (output.topic, partition)
            for output in plan.outputs.values()
            for partition in range(output.partitions)
        ]

    def resolve(self, offset_pending: bool) -> bool | None:
        """Return True if the transaction was committed, False if it was aborted, None if there was none."""
        source, timeout_ms = self._source, int(self._plan.timing.transaction_timeout * 1000)
        with Admin(self._connection) as admin:
            transactional_id = self._topics.transactional_id(source.topic, source.partition)
            writer = admin.fence_writer(transactional_id, timeout_ms)
            existing_topics = admin.describe(
                {topic for topic, _ in (self._positions, *self._command_partitions)}
            )
            open_transactions = admin.open_producers(
                topic_partition
                for topic_partition in (self._positions, *self._command_partitions)
                if topic_partition[0] in existing_topics
            )
            start_offsets = {
                topic_partition: starts[writer.producer_id]
                for topic_partition, starts in open_transactions.items()
                if writer.producer_id in starts
            }
            if not start_offsets and not (
                offset_pending
                and has_pending_commit(self._connection, self._topics.group, source.topic, source.partition)
            ):
                return None
            commit = must_commit(self._traces(start_offsets))
            admin.end_hanging(writer, list(start_offsets) or [self._positions], self._topics.group, commit)
        return commit

    def _read_group_commit(self) -> GroupCommit:
        """Return the group's offset, without waiting for a pending commit."""
        client = consumer(self._connection, group=self._topics.group, isolation="read_uncommitted")
        try:
            source = self._source
            return committed_offsets(client, source.topic, [source.partition], PENDING_COMMIT_TIMEOUT)[
                source.partition
            ]
        finally:
            client.close()

    def _traces(self, start_offsets: Mapping[_TopicPartition, int]) -> ReactionTraces:
        """Return the traces of the transaction. `start_offsets`: partition on which it is open → its first offset."""
        group_commit = self._read_group_commit()
        visible = read_positions(self._connection, self._topics, "read_committed").get(self._key)
        visible_offset = -1 if visible is None else visible.offset
        is_visible_in_group = visible is not None and _is_committed_in_group(group_commit, visible)
        if self._positions in start_offsets:
            record = self._first_record(self._positions, start_offsets[self._positions])
            hidden = read_position(record.value)
            has_visible_command = self._is_command_visible(
                visible_offset, hidden.offset, record.timestamp, start_offsets
            )
            return ReactionTraces(
                visible_offset,
                is_visible_in_group,
                True,
                _is_committed_in_group(group_commit, hidden),
                has_visible_command,
            )
        hidden_event_offset = None
        for topic_partition, start in start_offsets.items():
            hidden_event_offset = self._event_offset(self._first_record(topic_partition, start))
            break
        return ReactionTraces(
            visible_offset, is_visible_in_group, False, hidden_event_offset=hidden_event_offset
        )

    def _first_record(self, topic_partition: _TopicPartition, start: int) -> Record:
        """Return the first record of the transaction on a partition, at or after the offset `start`.

        The record is recognised by its key or id, which records of other writers do not have.
        """
        is_position = topic_partition == self._positions
        _, end = readers.bounds(
            self._connection, topic_partition[0], [topic_partition[1]], "read_uncommitted"
        )[topic_partition[1]]
        for records in readers.read(self._connection, *topic_partition, start, end, "read_uncommitted"):
            for record in records:
                if record.key == self._key if is_position else self._reaction_id(record):
                    return record
        raise CqrsError(
            f"{topic_partition[0]} partition {topic_partition[1]} has no record of the transaction at {start}"
        )

    def _reaction_id(self, record: Record) -> ReactionId | None:
        """Return the id of a command that this process manager has sent; None for any other record."""
        try:
            attributes = msgspec.json.decode(record.value or b"", type=_CommandId)
        except (ValueError, RecursionError):
            return None
        process, topic = self._topics.process, self._source.topic
        reaction_id = (
            read_reaction_id(attributes.id) if attributes.source == process_source(process) else None
        )
        return (
            reaction_id
            if reaction_id is not None and (reaction_id.process, reaction_id.topic) == (process, topic)
            else None
        )

    def _event_offset(self, command: Record) -> int:
        """Return the offset of the event that caused a command."""
        reaction_id = self._reaction_id(command)
        assert reaction_id is not None
        source = self._source
        start = readers.offset_at(self._connection, source.topic, source.partition, reaction_id.time)
        for offset, id in self._event_ids(0 if start is None else start, None):
            if id == reaction_id.event:
                return offset
        raise CqrsError(f"{source.topic} partition {source.partition} has no event {reaction_id.event}")

    def _event_ids(self, start: int, until: int | None) -> Iterator[tuple[int, str]]:
        """Yield (offset, id) of the events from offset `start` to `until`; None: to the end of the log."""
        source = self._source
        log_start, end = readers.bounds(self._connection, source.topic, [source.partition])[source.partition]
        end = end if until is None else min(end, until)
        for records in readers.read(
            self._connection, source.topic, source.partition, max(start, log_start), end
        ):
            yield from ((record.offset, read_event(record.value).id) for record in records)

    def _is_command_visible(
        self, start: int, end: int, time: int, start_offsets: Mapping[_TopicPartition, int]
    ) -> bool:
        """Return True if a command for an event from offset `start` to `end` is visible.

        `time` (ms): the time of the transaction. Commands that are much older are not read.
        """
        event_ids = {id for _, id in self._event_ids(start, end)} if start < end else set()
        since = time - 2 * int(self._plan.timing.transaction_timeout * 1000)
        for topic, partition in self._command_partitions if event_ids else ():
            if (topic, partition) in start_offsets:
                continue
            first_recent = readers.offset_at(self._connection, topic, partition, since)
            _, end_offset = readers.bounds(self._connection, topic, [partition])[partition]
            for records in readers.read(
                self._connection,
                topic,
                partition,
                end_offset if first_recent is None else first_recent,
                end_offset,
            ):
                reaction_ids = (self._reaction_id(record) for record in records)
                if any(id is not None and id.event in event_ids for id in reaction_ids):
                    return True
        return False


def _is_committed_in_group(group_commit: GroupCommit, position: ProcessPosition) -> bool:
    """Return True if the group's offset was committed with this position."""
    return (group_commit.offset, group_commit.metadata) == (position.offset, position.claim.metadata())
