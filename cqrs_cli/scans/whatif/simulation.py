"""Decides a range of one partition's commands again with changed code, in bounded memory. Reads no topic.

A simulation has two stores. The logged store has the states as folded from the logged events with the current code. The
simulated store has the states and command ids as decided by the changed code, like an owner's shard.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import InitVar, dataclass, field, replace
from itertools import islice

from cqrs_cli.codec.record_codec import AS_STORED, RecordCodec
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.decision_rules import DecisionRules
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.stored import DedupEntry, restore_dedup_entry
from cqrs_cli.deciding.deferred_fold import deferred_entries
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.proof.whatif.decided import DecidedCommand, OwnerRecord
from cqrs_cli.proof.whatif.difference import HistoryDifference, compare_states, redacted_state
from cqrs_cli.scans.verify.pairs import merge_aggregates
from cqrs_cli.scans.whatif.deferred_before import deferred_changes
from cqrs_cli.scans.whatif.folded_states import FoldedStates
from cqrs_cli.scans.whatif.payloads import HistoricPayloads
from cqrs_cli.scans.whatif.personal import HistoricKeys, ScratchKey
from cqrs_cli.scans.whatif.simulated_owner import SimulatedOwner
from cqrs_cli.scans.whatif.stores import open_stores
from cqrs_cli.state.lmdb_store import LmdbStore

#: Number of commands, events or outcomes per batch. A batch and its results fit into the CPU cache.
BATCH_SIZE = 250


@dataclass
class PartitionSimulation:
    """The simulation of one partition. Call `fold_before` and `restore_decisions_before`, then `decide`, then
    `state_differences`.
    """

    rules: InitVar[DecisionRules]  # the owners' current rules
    current_code: Aggregate
    other_code: Aggregate  # the changed code (`whatif --with`)
    logged_store: LmdbStore
    simulated_store: LmdbStore
    codec: RecordCodec = AS_STORED
    batch_size: int = BATCH_SIZE
    #: True: the stores have data of several partitions, so each command id is stored with its partition.
    shares_stores: bool = False
    #: Encrypts the personal fields of states in the stores. A child copies the stores, so it uses this key, too.
    scratch_key: ScratchKey = field(default_factory=ScratchKey)
    aggregates: int = 0  # the number of aggregates whose final states were compared so far

    def __post_init__(self, rules: DecisionRules) -> None:
        logged_encryption, simulated_encryption = (
            self.scratch_key.encryption_of(code) for code in (self.current_code, self.other_code)
        )
        logged_states = StateCache(
            self.current_code, self.logged_store, self.logged_store.token(), encryption=logged_encryption
        )
        self._logged_states = FoldedStates(self.current_code, logged_states)
        self._simulated_states = StateCache(
            self.other_code,
            self.simulated_store,
            self.simulated_store.token(),
            encryption=simulated_encryption,
        )
        self._payloads = HistoricPayloads(self.codec, rules.topic, rules.partition)
        self.keys = HistoricKeys(self.current_code)
        self.owner = SimulatedOwner(
            rules, self.other_code, self._simulated_states, self._payloads, self.keys, self.shares_stores
        )

    def fold_before(self, events: Iterator[OwnerRecord[EventEnvelope]]) -> None:
        """Fold the events before the simulated range into both stores, each with its code."""
        simulated_states = FoldedStates(self.other_code, self._simulated_states)
        while batch := list(islice(events, self.batch_size)):
            self._logged_states.fold(batch)
            simulated_states.fold(batch)
            self.keys.fold(record.message for record in batch)
        self._logged_states.flush()
        simulated_states.flush()

    def restore_decisions_before(self, outcomes: Iterator[OwnerRecord[OutcomeEnvelope]]) -> None:
        """Store the command ids, deferred commands and clock of the time before the simulated range. `outcomes`: the
        outcomes before the range.
        """
        while batch := list(islice(outcomes, self.batch_size)):
            entries: dict[tuple[str, str], DedupEntry] = {}
            with self._simulated_states.reading():
                deferrals = deferred_changes(
                    batch, self._simulated_states.deferred().find_entry, self.owner.rules.topic_id
                )
            clock = self._simulated_states.positions.clock
            for outcome_record in batch:
                restore_dedup_entry(
                    entries,
                    outcome_record.message,
                    outcome_record.record.timestamp,
                    self.owner.stored_partition,
                )
                clock = max(clock, outcome_record.record.timestamp)
            self._simulated_states.fold(
                self._simulated_states.positions._replace(clock=clock), None, entries, deferrals
            )

    def decide(self, commands: Iterable[DecidedCommand]) -> Iterator[HistoryDifference]:
        """Decide the commands of the simulated range again, and yield the differences from the log, in order."""
        remaining = iter(commands)
        while batch := list(islice(remaining, self.batch_size)):
            for part in self._payloads.in_memory_parts(
                [self.keys.restore_sent_data(command) for command in batch]
            ):
                yield from self.owner.decide(part)
                self._logged_states.fold([event for command in part for event in command.events])
        self._logged_states.flush()
        self._simulated_states.flush()

    def child_simulation(self, partition: int, stack: ExitStack) -> "PartitionSimulation":
        """Return the simulation of a child partition, which starts with copies of this simulation's stores. `stack`
        closes the copies.
        """
        rules = replace(self.owner.rules, partition=partition)
        stores = open_stores(stack, rules.dedup_window, (self.logged_store, self.simulated_store))
        codes = self.current_code, self.other_code
        child = PartitionSimulation(
            rules,
            *codes,
            *stores,
            self.codec,
            self.batch_size,
            shares_stores=True,
            scratch_key=self.scratch_key,
        )
        child._inherit_deferrals(self.owner.rules.partition)
        child.keys.active_keys.update(self.keys.active_keys)
        return child

    def _inherit_deferrals(self, parent: int) -> None:
        """Mark the deferred commands, which were copied with the parent's store, as inherited from the parent."""
        with self._simulated_states.reading():
            own_entries = [
                entry for entry in deferred_entries(self._simulated_states) if entry.partition is None
            ]
        inherited = [entry.passed_on_by(parent) for entry in own_entries]
        removed = dict.fromkeys(entry.key for entry in own_entries)
        added = {entry.key: entry for entry in inherited}
        self._simulated_states.fold(self._simulated_states.positions, deferred={**removed, **added})

    def state_differences(self) -> Iterator[HistoryDifference]:
        """Yield the aggregates whose final states differ between the two stores, in the order of the stores."""
        partition_of, own_partition = self.owner.rules.partition_of, self.owner.rules.partition
        for aggregate_id, logged, simulated in merge_aggregates(
            self.logged_store.items(), self.simulated_store.items()
        ):
            if (
                self.shares_stores
                and partition_of is not None
                and partition_of(aggregate_id.encode()) != own_partition
            ):
                continue  # the aggregate belongs to another partition since a split
            self.aggregates += 1
            redacted = redacted_state(self.current_code, logged), redacted_state(self.other_code, simulated)
            difference = compare_states(own_partition, aggregate_id, *redacted)
            if difference is not None:
                yield difference
