"""Simulation: decide a range of one partition's commands again with other code, in bounded memory. Reads no topic.

Two stores hold the aggregates: one as folded from the logged events with the current code, the other as the other code
decides. The second store also holds command ids, as an owner's shard does. Deciding uses the owners' code: `Batch` and
`StateCache`.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from dataclasses import replace as replace_rules
from itertools import islice

from msgspec.structs import replace

from cqrs_cli.codec.record_codec import AS_STORED, RecordCodec
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import BatchContext, DecisionInterrupted
from cqrs_cli.core.decide import Batch
from cqrs_cli.core.decision_rules import DecisionRules
from cqrs_cli.core.deferral.entry import Deferral, entry_key_of
from cqrs_cli.core.fold import FoldError, VersionedState, fold_event
from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.payload_reference import with_payload_data
from cqrs_cli.core.messages.reasons import Reason
from cqrs_cli.core.stored import DedupEntry, restore_dedup_entry
from cqrs_cli.deciding.deferred_fold import deferred_entries
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import CqrsError
from cqrs_cli.ownership.timing import APPLY_EVERY
from cqrs_cli.proof.whatif.decided import DecidedCommand, HistoryError, OwnerRecord
from cqrs_cli.proof.whatif.difference import (
    HistoryDifference,
    compare_decisions,
    compare_states,
    masked_state,
    owner_clock,
    poison_reason_of,
    was_given_up,
)
from cqrs_cli.scans.verify.pairs import merge_aggregates
from cqrs_cli.scans.whatif.deferred_before import deferred_changes
from cqrs_cli.scans.whatif.payloads import HistoricPayloads
from cqrs_cli.scans.whatif.personal import HistoricKeys, ScratchKey
from cqrs_cli.scans.whatif.stores import open_stores
from cqrs_cli.state.lmdb_store import LmdbStore

#: Commands, events or outcomes per batch.
BATCH = 1000


@dataclass(slots=True)
class SimulationCounts:
    """The numbers of commands and aggregates that were decided again so far."""

    commands: int = 0
    aggregates: int = 0
    #: Commands that owners failed without a decision by the code. Their logged outcomes are kept.
    not_asked: int = 0
    last_offset: int | None = None  # of the last command that was decided again


@dataclass(slots=True)
class _Clock:
    """The owner's clock while one command is decided."""

    now: int = 0


@dataclass
class Simulation:
    """The simulation of one partition: call `fold_before` and `restore_decisions_before`, then `decide`, then
    `state_differences`.
    """

    rules: DecisionRules  # for both codes: the owners' current rules
    current_code: Aggregate
    other_code: Aggregate
    logged_store: LmdbStore  # states folded from the logged events with the current code
    simulated_store: LmdbStore  # states and command ids as the other code decides
    codec: RecordCodec = AS_STORED
    batch: int = BATCH
    #: The stores are shared by several partitions, so each id is stored with the partition that decided it.
    is_family: bool = False
    #: Encrypts the personal fields of states in the stores, which are files. Children use their parent's key.
    scratch_key: ScratchKey = field(default_factory=ScratchKey)
    progress: SimulationCounts = field(default_factory=SimulationCounts)

    def __post_init__(self) -> None:
        logged_encryption, simulated_encryption = (
            self.scratch_key.encryption_of(code) for code in (self.current_code, self.other_code)
        )
        self._logged = StateCache(
            self.current_code, self.logged_store, self.logged_store.token(), encryption=logged_encryption
        )
        self._simulated = StateCache(
            self.other_code,
            self.simulated_store,
            self.simulated_store.token(),
            encryption=simulated_encryption,
        )
        self._clock = _Clock()
        rules = self.rules
        self._payloads = HistoricPayloads(self.codec, rules.topic, rules.partition)
        self.keys = HistoricKeys(self.current_code)

    def fold_before(self, events: Iterator[OwnerRecord[EventEnvelope]]) -> None:
        """Fold the events before the simulated range, with both codes."""
        while batch := list(islice(events, self.batch)):
            _fold(self.current_code, self._logged, batch)
            _fold(self.other_code, self._simulated, batch)
            self.keys.fold(record.message for record in batch)

    def restore_decisions_before(self, outcomes: Iterator[OwnerRecord[OutcomeEnvelope]]) -> None:
        """Store the decisions before the simulated range, and the deferred commands. The clock is set to the
        time of the latest decision.
        """
        while batch := list(islice(outcomes, self.batch)):
            entries: dict[tuple[str, str], DedupEntry] = {}
            with self._simulated.reading():
                deferrals = deferred_changes(
                    batch, self._simulated.deferred().find_entry, self.rules.topic_id
                )
            clock = self._simulated.positions.clock
            for outcome_record in batch:
                restore_dedup_entry(
                    entries, outcome_record.message, outcome_record.record.timestamp, self._family_partition
                )
                clock = max(clock, outcome_record.record.timestamp)
            self._simulated.fold(self._simulated.positions._replace(clock=clock), None, entries, deferrals)

    def decide(self, commands: Iterable[DecidedCommand]) -> Iterator[HistoryDifference]:
        """Decide the commands of the simulated range again, and yield the differences in order."""
        remaining = iter(commands)
        while batch := list(islice(remaining, self.batch)):
            for part in self._payloads.in_memory_parts(
                [self.keys.restore_sent_data(command) for command in batch]
            ):
                yield from self._decide(part)
                _fold(
                    self.current_code, self._logged, [event for command in part for event in command.events]
                )
        self._simulated.flush()

    @property
    def _family_partition(self) -> int | None:
        """The partition to store with a decision; None if the stores belong to one partition."""
        return self.rules.partition if self.is_family else None

    def target(self, partition: int, stack: ExitStack) -> "Simulation":
        """Return the simulation of a target partition. It starts with copies of the stores, so with their states, ids
        and clock. `stack` closes the copies.
        """
        stores = open_stores(stack, self.rules.dedup_window, (self.logged_store, self.simulated_store))
        rules = replace_rules(self.rules, partition=partition)
        codes = self.current_code, self.other_code
        child = Simulation(
            rules, *codes, *stores, self.codec, self.batch, is_family=True, scratch_key=self.scratch_key
        )
        child._inherit_deferrals(self.rules.partition)
        child.keys.active_keys.update(self.keys.active_keys)
        return child

    def _inherit_deferrals(self, parent: int) -> None:
        """Mark the deferred commands as inherited from the parent, of whose stores this simulation has copies."""
        with self._simulated.reading():
            own_entries = [entry for entry in deferred_entries(self._simulated) if entry.partition is None]
        inherited = [entry.passed_on_by(parent) for entry in own_entries]
        removed = dict.fromkeys(entry.key for entry in own_entries)
        added = {entry.key: entry for entry in inherited}
        self._simulated.fold(self._simulated.positions, deferred={**removed, **added})

    def state_differences(self) -> Iterator[HistoryDifference]:
        """Yield the aggregates whose final states differ, in the order of the stores."""
        partition_of, own_partition = self.rules.partition_of, self.rules.partition
        for aggregate_id, logged, simulated in merge_aggregates(
            self.logged_store.items(), self.simulated_store.items()
        ):
            if (
                self.is_family
                and partition_of is not None
                and partition_of(aggregate_id.encode()) != own_partition
            ):
                continue  # the aggregate has moved
            self.progress.aggregates += 1
            masked = masked_state(self.current_code, logged), masked_state(self.other_code, simulated)
            difference = compare_states(self.rules.partition, aggregate_id, *masked)
            if difference is not None:
                yield difference

    def _decide(self, commands: list[DecidedCommand]) -> list[HistoryDifference]:
        differences: list[HistoryDifference] = []
        with self._simulated.reading():
            batch = Batch(self.other_code, self._context(commands))
            for command in commands:
                difference = self._decide_one(batch, command)
                if difference is not None:
                    differences.append(difference)
        self.keys.add_decided(batch.decisions)
        last_offset = commands[-1].record.offset
        self.progress.commands += len(commands)
        self.progress.last_offset = last_offset
        if self.is_family:
            batch.decisions.dedup_entries = {
                key: replace(entry, partition=self._family_partition)
                for key, entry in batch.decisions.dedup_entries.items()
            }
        self._simulated.stage(batch.decisions, last_offset + 1, None, None)
        if self._simulated.pending >= APPLY_EVERY or self._simulated.is_full():
            self._simulated.flush()
        return differences

    def _decide_one(self, batch: Batch, command: DecidedCommand) -> HistoryDifference | None:
        self._clock.now = owner_clock(command.outcome)
        self._payloads.load_current(command)
        logged_events = [record.message for record in command.events]
        self.keys.use_logged_key_ids(batch.decisions, logged_events)
        try:
            decisions = batch.decide_piece([command.record])
        except DecisionInterrupted as error:
            raise CqrsError(
                f"{self.rules.topic} partition {self.rules.partition} offset {error.offset} cannot be decided "
                f"here: {error}",
                "the other code ran out of a resource, such as memory",
            ) from error
        ((value, _, _),) = decisions.outcomes
        simulated_events = [
            read_event(with_payload_data(value, decisions.payloads)) for value, _, _ in decisions.events
        ]
        simulated = read_outcome(value)
        self._payloads.check_lost_payload(command, simulated)
        return compare_decisions(self.other_code, command.outcome, logged_events, simulated, simulated_events)

    def _context(self, commands: list[DecidedCommand]) -> BatchContext:
        poison_reasons = {
            command.record.offset: reason
            for command in commands
            if (reason := poison_reason_of(command.outcome)) is not None
        }
        given_up = frozenset(command.record.offset for command in commands if was_given_up(command.outcome))
        self.progress.not_asked += len(poison_reasons) + len(given_up)
        rules, cache = self.rules, self._simulated
        return rules.batch_context(
            cache.state,
            self._find_dedup_entry if self.is_family else cache.find_dedup_entry,
            lambda: self._clock.now,
            cache.positions.clock,
            rules.deferrals(cache.deferred, cache.has_deferred, self._resubmissions(commands)),
            self._payloads.current_payloads,
            given_up,
            poison_reasons,
            self.keys.active_keys.get,
        )

    def _find_dedup_entry(self, subject: str, command_id: str) -> DedupEntry | None:
        """Return the first decision on a command id, with the partition if a parent made the decision."""
        entry = self._simulated.find_dedup_entry(subject, command_id)
        return (
            entry
            if entry is None or entry.partition != self._family_partition
            else replace(entry, partition=None)
        )

    def _resubmissions(self, commands: list[DecidedCommand]) -> dict[int, Deferral]:
        """Return the logged resubmissions by offset: each with its entry in the store, or a new entry."""
        resubmitted: dict[int, Deferral] = {}
        for command in commands:
            verdict, outcome = command.outcome.data, command.outcome
            if not isinstance(verdict.deferredfrom, str) or not isinstance(verdict.fingerprint, int):
                continue
            entry_key = entry_key_of(verdict.deferredfrom, self.rules.topic_id, verdict.partition)
            entry = self._simulated.deferred().find_entry(str(entry_key)) or Deferral(
                topic=entry_key.topic,
                offset=entry_key.offset,
                partition=entry_key.partition,
                subject=outcome.subject or "",
                id=outcome.causationid or "",
                fingerprint=verdict.fingerprint,
                version=0,
                timestamp=0,
                due=0,
                attempt=0,
                reason="",
                command=command.record.value or b"",
            )
            cancelled = verdict.reason == Reason.CANCELLED.name
            resubmitted[command.record.offset] = replace(
                entry, resubmitted_offset=command.record.offset, cancelled=cancelled
            )
        return resubmitted


def _fold(aggregate: Aggregate, cache: StateCache, events: list[OwnerRecord[EventEnvelope]]) -> None:
    """Fold a batch of events; raise `HistoryError` for an event that cannot be folded."""
    states: dict[str, VersionedState] = {}
    with cache.reading():
        for event_record in events:
            event = event_record.message
            try:
                before = states.get(event.subject) or cache.state(event.subject)
                states[event.subject] = fold_event(aggregate, before, event)
            except FoldError as error:
                raise HistoryError("events", event_record.record.offset, str(error)) from error
    cache.fold(cache.positions, states)
