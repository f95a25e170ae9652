"""Resolves an in-doubt transaction of a process manager's writer: commits or aborts all of it (`deciding.in_doubt`).

The transaction may hide the process manager's positions, and commands of a partition from their owner. The writer's
next write to these partitions would commit or abort it arbitrarily, so it must be resolved before each fence.
"""

from collections.abc import Callable, Iterator, Mapping
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
from cqrs_cli.following.processes.positions import POSITIONS_PARTITION, recorded_positions
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.clients import consumer, is_denied
from cqrs_cli.kafka.offsets import PENDING_COMMIT_TIMEOUT, GroupCommit, committed_offsets, has_pending_commit
from cqrs_cli.ownership.open_transactions import settlement

#: (topic, partition).
_Place = tuple[str, int]


class ReactionTraces(NamedTuple):
    """The traces of the writer's last transaction.

    `repeated`: the group's offset belongs to the visible position. Sample: `ReactionTraces(7, False, True, True)` has a
    hidden position record, whose offset is committed in the group.
    """

    position: int  # offset of the next event in the visible position; -1: no position
    repeated: bool
    hidden_position: bool
    hidden_repeated: bool = False  # the group's offset belongs to the hidden position
    sent: bool = False  # a command for an event between the two positions is visible
    hidden_event: int | None = None  # offset of the event of the first hidden command


def was_reacted(traces: ReactionTraces) -> bool:
    """Return True if a part of the in-doubt transaction is visible: then all of it must be committed.

    Each transaction has a position after the events of its commands, and commits the position's offset in the group.
    """
    if traces.hidden_position:
        return traces.hidden_repeated or traces.sent
    if traces.hidden_event is not None:
        return traces.hidden_event < traces.position
    return traces.position >= 0 and not traces.repeated  # only the offset is pending


def settled_reaction(
    plan: ProcessPlan, subscription: Subscription, pending: bool, note: Callable[[str], None]
) -> bool:
    """Resolve an in-doubt transaction of the writer; return True if there was one, which is reported to `note`.

    The writer is fenced first, so that it has no open transaction then. `pending`: the group's offset seems to stay
    pending. Without the right to read the commands topics nothing happens. Raises `UnavailableError` and
    `KafkaException` while Kafka does not respond: no write is allowed before the transaction is resolved.
    """
    try:
        commit = _InDoubtTransaction(plan, subscription).settle(pending)
    except UnavailableError:
        raise
    except KafkaException as error:
        if is_denied(error):
            return False
        raise
    except (CqrsError, ValueError):
        return False
    if commit is None:
        return False
    note(f"{subscription}: {settlement(commit)}")
    return True


class _Sent(Struct):
    id: str = ""
    source: str = ""


class _InDoubtTransaction:
    def __init__(self, plan: ProcessPlan, subscription: Subscription) -> None:
        self._plan, self._source, self._topics = plan, subscription.source, plan.topics(subscription)
        self._connection = plan.connection
        self._key = position_key(subscription.source)
        self._positions: _Place = (self._topics.positions, POSITIONS_PARTITION)
        self._commands: list[_Place] = [
            (one.topic, number) for one in plan.commands.values() for number in range(one.partitions)
        ]

    def settle(self, pending: bool) -> bool | None:
        """Return True if the transaction was committed, False if it was aborted, None if there was none."""
        source, timeout = self._source, int(self._plan.timing.transaction_timeout * 1000)
        with Admin(self._connection) as admin:
            id = self._topics.transactional_id(source.topic, source.partition)
            writer = admin.fence_writer(id, timeout)
            there = admin.describe({topic for topic, _ in (self._positions, *self._commands)})
            found = admin.open_producers(
                place for place in (self._positions, *self._commands) if place[0] in there
            )
            opened = {
                place: starts[writer.producer_id]
                for place, starts in found.items()
                if writer.producer_id in starts
            }
            if not opened and not (
                pending
                and has_pending_commit(self._connection, self._topics.group, source.topic, source.partition)
            ):
                return None
            commit = was_reacted(self._traces(opened))
            admin.end_hanging(writer, list(opened) or [self._positions], self._topics.group, commit)
        return commit

    def _committed(self) -> GroupCommit:
        """Return the group's offset, without waiting for a pending commit."""
        client = consumer(self._connection, group=self._topics.group, isolation="read_uncommitted")
        try:
            source = self._source
            return committed_offsets(client, source.topic, [source.partition], PENDING_COMMIT_TIMEOUT)[
                source.partition
            ]
        finally:
            client.close()

    def _traces(self, opened: Mapping[_Place, int]) -> ReactionTraces:
        """`opened`: the start offset of the transaction on each partition where it is open."""
        group = self._committed()
        visible = recorded_positions(self._connection, self._topics, "read_committed").get(self._key)
        at = -1 if visible is None else visible.offset
        repeated = visible is not None and _repeats(group, visible)
        if self._positions in opened:
            record = self._first(self._positions, opened[self._positions])
            hidden = read_position(record.value)
            sent = self._is_sent(at, hidden.offset, record.timestamp, opened)
            return ReactionTraces(at, repeated, True, _repeats(group, hidden), sent)
        hidden_event = None
        for place, start in opened.items():
            hidden_event = self._event_offset(self._first(place, start))
            break
        return ReactionTraces(at, repeated, False, hidden_event=hidden_event)

    def _first(self, place: _Place, start: int) -> Record:
        """Return the first record of the transaction on a partition. No other writer's record has such a key or id."""
        _, end = readers.bounds(self._connection, place[0], [place[1]], "read_uncommitted")[place[1]]
        for records in readers.read(self._connection, *place, start, end, "read_uncommitted"):
            for record in records:
                if record.key == self._key if place == self._positions else self._origin(record):
                    return record
        raise CqrsError(f"{place[0]} partition {place[1]} has no record of the transaction at {start}")

    def _origin(self, record: Record) -> ReactionId | None:
        """Return the id of a command that this process manager has sent; None for any other record."""
        try:
            sent = msgspec.json.decode(record.value or b"", type=_Sent)
        except (ValueError, RecursionError):
            return None
        process, topic = self._topics.process, self._source.topic
        found = read_reaction_id(sent.id) if sent.source == process_source(process) else None
        return found if found is not None and (found.process, found.topic) == (process, topic) else None

    def _event_offset(self, command: Record) -> int:
        """Return the offset of the event that caused a command."""
        origin = self._origin(command)
        assert origin is not None
        source = self._source
        start = readers.offset_at(self._connection, source.topic, source.partition, origin.time)
        for offset, id in self._events(0 if start is None else start, None):
            if id == origin.event:
                return offset
        raise CqrsError(f"{source.topic} partition {source.partition} has no event {origin.event}")

    def _events(self, start: int, until: int | None) -> Iterator[tuple[int, str]]:
        """Yield offset and id of the events from `start` to `until`."""
        source = self._source
        low, end = readers.bounds(self._connection, source.topic, [source.partition])[source.partition]
        end = end if until is None else min(end, until)
        for records in readers.read(self._connection, source.topic, source.partition, max(start, low), end):
            yield from ((record.offset, read_event(record.value).id) for record in records)

    def _is_sent(self, start: int, end: int, time: int, opened: Mapping[_Place, int]) -> bool:
        """Return True if a command for an event from `start` to `end` is visible, not much older than `time` (ms)."""
        wanted = {id for _, id in self._events(start, end)} if start < end else set()
        since = time - 2 * int(self._plan.timing.transaction_timeout * 1000)
        for topic, partition in self._commands if wanted else ():
            if (topic, partition) in opened:
                continue
            first = readers.offset_at(self._connection, topic, partition, since)
            _, last = readers.bounds(self._connection, topic, [partition])[partition]
            for records in readers.read(
                self._connection, topic, partition, last if first is None else first, last
            ):
                origins = (self._origin(record) for record in records)
                if any(origin is not None and origin.event in wanted for origin in origins):
                    return True
        return False


def _repeats(group: GroupCommit, position: ProcessPosition) -> bool:
    """Return True if the group's offset was committed with this position."""
    return (group.offset, group.metadata) == (position.offset, position.claim.metadata())
