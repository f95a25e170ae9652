"""Simulation: decide commands locally, without sending them, against the states of the committed events."""

import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaException

from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.client.queries.deferred import deferred_entries
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, DecisionInterrupted
from cqrs_cli.core.decide import Batch
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.encrypted_events import event_marks, open_event, read_marked
from cqrs_cli.core.fold import FoldError, VersionedState, fold_event
from cqrs_cli.core.lineage import PartitionLineage
from cqrs_cli.core.messages.event import HEADERS, read_event
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.payload_reference import PayloadReference, restored
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.core.stored import DedupEntry, remember
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import clients, offsets
from cqrs_cli.kafka.admin.topics import Admin, find_with_extras
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.keys_log import event_decryptor
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.segments import find_lineage
from cqrs_cli.kafka.topics.checks import aggregate_topics, missing_topics
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.kafka.topics.partitioner import target_partition
from cqrs_cli.kafka.topics.topics import AggregateTopics, Topics
from cqrs_cli.keys.event_decryptor import EventDecryptor
from cqrs_cli.payloads.upload import referring

#: Timeout in seconds for reading the owners' position. The position is optional, because an ACL may hide the group.
_PATIENCE = 2.0


class SimulatedOutcome(NamedTuple):
    """The simulated outcome of a command, as bytes and decoded, and its simulated events."""

    value: bytes
    read: OutcomeEnvelope
    events: list[bytes]


class Rehearsal:
    """Decides commands to one aggregate as its owners would now, in the given order. Each command sees the results of
    the earlier commands.
    """

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        aggregate: Aggregate,
        deciding: DecisionSettings,
        commands: Iterable[ReadyCommand],
        ids_may_repeat: bool = True,
    ) -> None:
        """Read the states of the aggregates in `commands`. If ids may repeat, also read the decisions within the dedup
        window, and the deferred commands.
        """
        self.topics = _described(connection, topics)
        count = self.topics.partitions
        lineage = find_lineage(connection, topics, count) or PartitionLineage((count,))
        self._place = connection.payloads
        self._payloads: dict[PayloadReference, bytes] = {}  # payloads of the commands so far
        self._deciding = deciding
        subjects: dict[int, set[bytes]] = {}
        for composed in commands:
            key = composed.subject.encode()
            subjects.setdefault(
                target_partition(deciding.partitioner, key, self.topics.partitions), set()
            ).add(key)
        self._marks = event_marks(aggregate)
        self._opener = event_decryptor(connection, connection.keys, topics, self._marks)
        self._keys: dict[str, DataKey] = {}  # data keys for the simulated events, by id
        self._batches: dict[int, Batch] = {}
        self._ends: dict[int, int] = {}
        for partition, keys in subjects.items():
            log = PartitionLog(connection, topics, partition, connection.payloads)
            self._ends[partition] = log.bounds("commands")[1]
            states: dict[str, VersionedState] = {}
            decided: dict[tuple[str, str], DedupEntry] = {}
            for one in lineage.chain(partition):
                link = replace(log, partition=one)
                states = present_states(link, aggregate, keys, states, self._opener)
                decided |= recent_decisions(link, keys, _now() - deciding.window) if ids_may_repeat else {}
            keeper = replace(log, partition=lineage.keeper(partition))
            waiting = _waiting(keeper, keys) if ids_may_repeat else []
            self._batches[partition] = Batch(aggregate, self._context(partition, states, decided, waiting))
        self._opener.conclude()
        #: Commands in these partitions that no owner has decided yet. An upper bound, because offsets have gaps.
        self.undecided = _undecided(connection, topics, self._ends)

    def decide(self, composed: ReadyCommand) -> SimulatedOutcome:
        """Return the outcome that the command would have now; raise `CqrsError` if it cannot be decided here."""
        key = composed.subject.encode()
        partition = target_partition(self._deciding.partitioner, key, self.topics.partitions)
        value = composed.value
        if self._place is not None:
            value, payloads = referring(self._place, self.topics.topics.commands, value)
            self._payloads.update(payloads)
        record = Record(self._ends[partition], _now(), key, value, list(HEADERS))
        self._ends[partition] += 1
        try:
            decided = self._batches[partition].decide_piece([record])
        except DecisionInterrupted as error:
            raise CqrsError(
                f"cannot be decided here: {error}", "the aggregate's code ran out of something"
            ) from error
        ((value, _, _),) = decided.outcomes
        self._keys |= {key.kid: key for key in decided.keys.values() if key is not None}
        events = [self._opened(restored(event, decided.payloads)) for event, _, _ in decided.events]
        return SimulatedOutcome(value, read_outcome(value), events)

    def close(self) -> None:
        """Release the data keys. Idempotent."""
        self._opener.close()

    def _opened(self, event: bytes) -> bytes:
        """Return a simulated event with its personal fields decrypted."""
        marked = None if self._marks is None else read_marked(event)
        if self._marks is None or marked is None:
            return event
        return open_event(self._marks, event, marked, self._keys.get)

    def _key_of(self, partition: int, subject: str) -> DataKey | None:
        key = self._opener.in_force(partition, subject)
        if key is not None:
            self._keys[key.kid] = key
        return key

    def _context(
        self,
        partition: int,
        states: Mapping[str, VersionedState],
        decided: Mapping[tuple[str, str], DedupEntry],
        waiting: Collection[Deferral],
    ) -> BatchContext:
        rules = self._deciding.rules(self.topics, partition, self._place)
        table = DeferralTable(waiting)
        return rules.context(
            states.get,
            lambda subject, id: decided.get((subject, id)),
            _now,
            _now(),
            rules.deferrals(lambda: table, bool(waiting)),
            self._payloads,
            key_of=partial(self._key_of, partition),
        )


def _described(connection: Connection, topics: Topics) -> AggregateTopics:
    with Admin(connection) as admin:
        found, extras = find_with_extras(admin, topics)
        if (error := missing_topics(topics, found)) is not None:
            raise error
        return aggregate_topics(topics, admin.cluster_id(), found, extras)


def present_states(
    log: PartitionLog,
    aggregate: Aggregate,
    keys: Collection[bytes],
    before: Mapping[str, VersionedState] | None,
    opener: EventDecryptor,
) -> dict[str, VersionedState]:
    """Fold the partition's committed events of these keys, and return the states by aggregate id. `before` holds the
    states from the earlier segments.

    Raises `ContradictionError` with the position of an invalid event.
    """
    states = dict(before or {})
    batches = log.read("events", *log.bounds("events"))
    mine = ([record for record in records if record.key in keys] for records in batches)
    for records in opener.batches(log.partition, log.with_data("events", mine)):
        for record in records:
            try:
                event = read_event(record.value)
                states[event.subject] = fold_event(aggregate, states.get(event.subject), event)
            except (FoldError, ValueError) as error:
                raise log.fault("events", record.offset, error) from error
    return states


def recent_decisions(
    log: PartitionLog, keys: Collection[bytes], since: int
) -> dict[tuple[str, str], DedupEntry]:
    """Return the decisions after `since` (ms) that an owner remembers, by subject and command id."""
    decided: dict[tuple[str, str], DedupEntry] = {}
    _, end = log.bounds("outcomes")
    start = log.offset_at("outcomes", since)
    for records in () if start is None else log.read("outcomes", start, end):
        for record in records:
            if record.key in keys:
                remember(decided, read_outcome(record.value), record.timestamp)
    return decided


def _waiting(log: PartitionLog, keys: Collection[bytes]) -> list[Deferral]:
    """Return the deferred commands of these keys."""
    return deferred_entries(log, lambda entry: entry.subject.encode() in keys)


def _undecided(connection: Connection, topics: Topics, ends: Mapping[int, int]) -> int:
    with closing(clients.consumer(connection, group=topics.group, isolation="read_uncommitted")) as client:
        try:
            positions = offsets.committed_offsets(client, topics.commands, ends, _PATIENCE)
        except KafkaException:
            return 0
    return sum(max(0, end - (positions[partition].offset or 0)) for partition, end in ends.items())


def _now() -> int:
    return time.time_ns() // 1_000_000
