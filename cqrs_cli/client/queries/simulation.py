"""Simulation: decides commands in this process, without sending them, against the states of the committed events."""

import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaException

from cqrs_cli.client.aggregate_logs import complete_key_space
from cqrs_cli.client.codecs import decrypting_codec
from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.client.queries.deferred import deferred_entries
from cqrs_cli.codec.simulation_keys import SimulationKeys
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, DecisionInterrupted
from cqrs_cli.core.decide import Batch
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.fold import FoldError, VersionedState, fold_event
from cqrs_cli.core.messages.event import HEADERS, read_event
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.payload_reference import PayloadReference, with_payload_data
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import DedupEntry, restore_dedup_entry
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import clients, offsets
from cqrs_cli.kafka.admin.topics import Admin, find_with_extras
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.checks import aggregate_topics, missing_topics_error
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.kafka.topics.topics import AggregateTopics, Topics
from cqrs_cli.ownership.complete_events import complete_bounds

#: Timeout in seconds for reading the owners' position, which is optional: an ACL may hide their consumer group.
_POSITION_TIMEOUT = 2.0


class SimulatedOutcome(NamedTuple):
    """The simulated outcome of a command, and its simulated events."""

    value: bytes  # the outcome as JSON
    envelope: OutcomeEnvelope
    events: list[bytes]  # each event as JSON


class Simulation:
    """Decides commands to one aggregate as its owners would now, in the given order. Each command sees the results of
    the earlier commands.
    """

    def __init__(
        self,
        connection: Connection,
        topics: Topics,
        aggregate: Aggregate,
        settings: DecisionSettings,
        commands: Iterable[ReadyCommand],
        ids_may_repeat: bool = True,
    ) -> None:
        """Read the states of the aggregates to which the `commands` go.

        `ids_may_repeat`: True if the id of a command may already be in use. Then the decisions within the dedup window
        and the deferred commands are read, too.
        """
        self.topics = _describe_topics(connection, topics)
        key_space = complete_key_space(connection, self.topics, settings.partitioner)
        self._payloads: dict[PayloadReference, bytes] = {}  # the large data of the commands so far
        self._settings, self._key_space = settings, key_space
        subjects: dict[int, set[bytes]] = {}  # partition → the record keys of its commands
        for command in commands:
            key = command.subject.encode()
            subjects.setdefault(key_space.producer_partition(key), set()).add(key)
        self._codec = decrypting_codec(connection, topics, aggregate)
        self._keys = SimulationKeys(self._codec, aggregate)
        self._batches: dict[int, Batch] = {}  # partition → the batch that decides its commands
        self._next_offsets: dict[int, int] = {}  # partition → offset of the next simulated command
        for partition, keys in subjects.items():
            log = PartitionLog(connection, topics, partition, self._codec)
            self._next_offsets[partition] = log.bounds("commands")[1]
            states: dict[str, VersionedState] = {}  # aggregate id → state
            decisions: dict[tuple[str, str], DedupEntry] = {}  # (aggregate id, command id) → decision
            for source_partition in key_space.partitions_of(partition):
                source_log = replace(log, partition=source_partition)
                states = current_states(source_log, aggregate, keys, states)
                decisions |= (
                    recent_decisions(source_log, keys, _now_ms() - settings.window) if ids_may_repeat else {}
                )
            deferred_log = replace(log, partition=key_space.deferred_partition(partition))
            deferred = _deferred_of_keys(deferred_log, keys) if ids_may_repeat else []
            self._batches[partition] = Batch(
                aggregate, self._batch_context(partition, states, decisions, deferred)
            )
        self._codec.check_no_lost_keys()
        #: At most this number of commands in these partitions has not been decided by an owner yet. It is an upper
        #: bound, because offsets have gaps.
        self.undecided = _count_undecided(connection, topics, self._next_offsets)

    def decide(self, command: ReadyCommand) -> SimulatedOutcome:
        """Return the outcome that the command would have now; raise `CqrsError` if this machine lacks a resource."""
        key = command.subject.encode()
        partition = self._key_space.producer_partition(key)
        value, payloads = self._codec.replace_large_data(self.topics.topics.commands, command.value)
        self._payloads.update(payloads)
        record = Record(self._next_offsets[partition], _now_ms(), key, value, list(HEADERS))
        self._next_offsets[partition] += 1
        try:
            decisions = self._batches[partition].decide_piece([record])
        except DecisionInterrupted as error:
            raise CqrsError(
                f"the command cannot be decided on this machine: {error}",
                "give this process more of the resource, or reduce what the aggregate's code uses",
            ) from error
        ((value, _, _),) = decisions.outcomes
        self._keys.add_new_keys(decisions.data_keys)
        events = [
            self._keys.decrypt(with_payload_data(event, decisions.payloads))
            for event, _, _ in decisions.events
        ]
        return SimulatedOutcome(value, read_outcome(value), events)

    def state_of(self, subject: str) -> VersionedState | None:
        """Return the state of an aggregate after the commands so far; None if it does not exist."""
        batch = self._batches[self._key_space.producer_partition(subject.encode())]
        return batch.states.get(subject) or batch.context.state_of(subject)

    def close(self) -> None:
        """Release the data keys. Idempotent."""
        self._codec.close()

    def _batch_context(
        self,
        partition: int,
        states: Mapping[str, VersionedState],
        dedup_entries: Mapping[tuple[str, str], DedupEntry],
        deferred: Collection[Deferral],
    ) -> BatchContext:
        rules = self._settings.rules(self.topics, partition, self._codec.payload_threshold)
        table = DeferralTable(deferred)
        return rules.batch_context(
            states.get,
            lambda subject, id: dedup_entries.get((subject, id)),
            _now_ms,
            _now_ms(),
            rules.deferrals(lambda: table, bool(deferred)),
            self._payloads,
            data_key_of=partial(self._keys.key_of, partition),
        )


def _describe_topics(connection: Connection, topics: Topics) -> AggregateTopics:
    with Admin(connection) as admin:
        topic_infos, extras = find_with_extras(admin, topics)
        if (error := missing_topics_error(topics, topic_infos)) is not None:
            raise error
        return aggregate_topics(topics, admin.cluster_id(), topic_infos, extras)


def current_states(
    log: PartitionLog,
    aggregate: Aggregate,
    keys: Collection[bytes],
    earlier_states: Mapping[str, VersionedState] | None,
) -> dict[str, VersionedState]:
    """Fold the partition's committed events with these keys, and return aggregate id → state.

    `earlier_states`: aggregate id → state from the partitions that had the keys before a repartitioning.

    Raises `ContradictionError` with the position of an invalid event.
    """
    states = dict(earlier_states or {})
    bounds = complete_bounds(log.connection, log.topics, [log.partition])[log.partition]
    batches = log.read("events", *bounds)
    own_records = ([record for record in records if record.key in keys] for records in batches)
    for records in log.decode_events(own_records):
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
    """Return the decisions since the time `since` (ms) that an owner remembers: (subject, command id) → decision."""
    decisions: dict[tuple[str, str], DedupEntry] = {}
    _, end = log.bounds("outcomes")
    start = log.offset_at("outcomes", since)
    for records in () if start is None else log.read("outcomes", start, end):
        for record in records:
            if record.key in keys:
                restore_dedup_entry(decisions, read_outcome(record.value), record.timestamp)
    return decisions


def _deferred_of_keys(log: PartitionLog, keys: Collection[bytes]) -> list[Deferral]:
    """Return the deferred commands of these keys."""
    return deferred_entries(log, lambda entry: entry.subject.encode() in keys)


def _count_undecided(connection: Connection, topics: Topics, ends: Mapping[int, int]) -> int:
    with closing(clients.consumer(connection, group=topics.group, isolation="read_uncommitted")) as client:
        try:
            positions = offsets.committed_offsets(client, topics.commands, ends, _POSITION_TIMEOUT)
        except KafkaException:
            return 0
    return sum(max(0, end - (positions[partition].offset or 0)) for partition, end in ends.items())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
