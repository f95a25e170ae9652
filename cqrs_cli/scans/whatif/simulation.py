"""Simulation: decide a range of one partition's commands again with other code, in bounded memory. Reads no topic.

Two stores hold the aggregates: folded from the logged events with the current code, and as the other code decides. The
second store also holds command ids, as an owner's shard does. Deciding uses the owners' code: `Batch` and `StateCache`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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
from cqrs_cli.core.personal.data_keys import random_key
from cqrs_cli.core.personal.encryption import DataKey
from cqrs_cli.core.stored import DedupEntry, restore_dedup_entry
from cqrs_cli.deciding.deferred_fold import deferred_entries
from cqrs_cli.deciding.inherit import inherited_entry
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
from cqrs_cli.scans.whatif.personal import HistoricKeys, scratch_seal
from cqrs_cli.state.lmdb_store import LmdbStore

#: Commands, events or outcomes per batch.
BATCH = 1000


@dataclass(slots=True)
class RehearsedCounts:
    """The numbers of commands and aggregates that were decided again so far."""

    commands: int = 0
    aggregates: int = 0
    #: Commands that owners failed without a decision by the code. Their logged outcomes are kept.
    not_asked: int = 0
    last: int | None = None


@dataclass(slots=True)
class _Clock:
    """The owner's clock while one command is decided."""

    now: int = 0


@dataclass
class Simulation:
    """The simulation of one partition: call `fold_before` and `remember_before`, then `decide`, then `states`."""

    rules: DecisionRules  # for both codes: the owners' current rules
    today: Aggregate
    other: Aggregate
    was: LmdbStore
    would: LmdbStore
    codec: RecordCodec = AS_STORED
    batch: int = BATCH
    #: The stores are shared by several partitions, so each id is stored with the partition that decided it.
    is_family: bool = False
    #: Encrypts the personal fields of states in the stores, which are files. Children use their parent's key.
    scratch_key: DataKey = field(default_factory=random_key)
    progress: RehearsedCounts = field(default_factory=RehearsedCounts)

    def __post_init__(self) -> None:
        was, would = (scratch_seal(code, self.scratch_key) for code in (self.today, self.other))
        self._was = StateCache(self.today, self.was, self.was.token(), encryption=was)
        self._would = StateCache(self.other, self.would, self.would.token(), encryption=would)
        self._clock = _Clock()
        rules = self.rules
        self._payloads = HistoricPayloads(self.codec, rules.topic, rules.partition)
        self.keys = HistoricKeys(self.today)

    def fold_before(self, events: Iterator[OwnerRecord[EventEnvelope]]) -> None:
        """Fold the events before the simulated range, with both codes."""
        while batch := list(islice(events, self.batch)):
            _fold(self.today, self._was, batch)
            _fold(self.other, self._would, batch)
            self.keys.fold(placed.message for placed in batch)

    def remember_before(self, outcomes: Iterator[OwnerRecord[OutcomeEnvelope]]) -> None:
        """Store the decisions before the simulated range, and the deferred commands. The clock is the latest decision's
        time.
        """
        while batch := list(islice(outcomes, self.batch)):
            entries: dict[tuple[str, str], DedupEntry] = {}
            with self._would.reading():
                parked = deferred_changes(batch, self._would.deferred().find_entry, self.rules.topic_id)
            clock = self._would.positions.clock
            for placed in batch:
                restore_dedup_entry(entries, placed.message, placed.record.timestamp, self._own)
                clock = max(clock, placed.record.timestamp)
            self._would.fold(self._would.positions._replace(clock=clock), None, entries, parked)

    def decide(self, commands: Iterable[DecidedCommand]) -> Iterator[HistoryDifference]:
        """Decide the commands of the simulated range again, and yield the differences in order."""
        remaining = iter(commands)
        while batch := list(islice(remaining, self.batch)):
            for part in self._payloads.in_memory_parts([self.keys.as_sent(command) for command in batch]):
                yield from self._decide(part)
                _fold(self.today, self._was, [event for command in part for event in command.events])
        self._would.flush()

    @property
    def _own(self) -> int | None:
        return self.rules.partition if self.is_family else None

    def inherit(self, parent: int) -> None:
        """Mark the deferred commands in the stores, which are copies of a parent's stores, as inherited from the
        parent.
        """
        with self._would.reading():
            own_entries = [entry for entry in deferred_entries(self._would) if entry.partition is None]
        inherited = [inherited_entry(entry, parent) for entry in own_entries]
        removed = dict.fromkeys(entry.key for entry in own_entries)
        added = {entry.key: entry for entry in inherited}
        self._would.fold(self._would.positions, deferred={**removed, **added})

    def states(self) -> Iterator[HistoryDifference]:
        """Yield the aggregates whose final states differ, in the order of the stores."""
        partition_of, own = self.rules.partition_of, self.rules.partition
        for name, was, would in merge_aggregates(self.was.items(), self.would.items()):
            if self.is_family and partition_of is not None and partition_of(name.encode()) != own:
                continue  # it has moved
            self.progress.aggregates += 1
            masked = masked_state(self.today, was), masked_state(self.other, would)
            difference = compare_states(self.rules.partition, name, *masked)
            if difference is not None:
                yield difference

    def _decide(self, commands: list[DecidedCommand]) -> list[HistoryDifference]:
        differences: list[HistoryDifference] = []
        with self._would.reading():
            batch = Batch(self.other, self._context(commands))
            for command in commands:
                difference = self._decide_one(batch, command)
                if difference is not None:
                    differences.append(difference)
        self.keys.add_decided(batch.decisions)
        last = commands[-1].record.offset
        self.progress.commands += len(commands)
        self.progress.last = last
        if self.is_family:
            batch.decisions.dedup_entries = {
                key: replace(entry, partition=self._own)
                for key, entry in batch.decisions.dedup_entries.items()
            }
        self._would.stage(batch.decisions, last + 1, None, None)
        if self._would.pending >= APPLY_EVERY or self._would.is_full():
            self._would.flush()
        return differences

    def _decide_one(self, batch: Batch, command: DecidedCommand) -> HistoryDifference | None:
        self._clock.now = owner_clock(command.outcome)
        self._payloads.load_current(command)
        history = [placed.message for placed in command.events]
        self.keys.name_erased(batch.decisions, history)
        try:
            decisions = batch.decide_piece([command.record])
        except DecisionInterrupted as error:
            raise CqrsError(
                f"{self.rules.topic} partition {self.rules.partition} offset {error.offset} cannot be decided "
                f"here: {error}",
                "the other code ran out of a resource, such as memory",
            ) from error
        ((value, _, _),) = decisions.outcomes
        events = [
            read_event(with_payload_data(value, decisions.payloads)) for value, _, _ in decisions.events
        ]
        would = read_outcome(value)
        self._payloads.check_lost_payload(command, would)
        return compare_decisions(self.other, command.outcome, history, would, events)

    def _context(self, commands: list[DecidedCommand]) -> BatchContext:
        blamed = {
            command.record.offset: why
            for command in commands
            if (why := poison_reason_of(command.outcome)) is not None
        }
        refused = frozenset(command.record.offset for command in commands if was_given_up(command.outcome))
        self.progress.not_asked += len(blamed) + len(refused)
        rules, would = self.rules, self._would
        return rules.batch_context(
            would.state,
            self._remembered if self.is_family else would.remembered,
            lambda: self._clock.now,
            would.positions.clock,
            rules.deferrals(would.deferred, would.has_deferred, self._resubmissions(commands)),
            self._payloads.known,
            refused,
            blamed,
            self.keys.in_force.get,
        )

    def _remembered(self, subject: str, command_id: str) -> DedupEntry | None:
        """Return the first decision on a command id, with the partition if a parent made the decision."""
        found = self._would.remembered(subject, command_id)
        return found if found is None or found.partition != self._own else replace(found, partition=None)

    def _resubmissions(self, commands: list[DecidedCommand]) -> dict[int, Deferral]:
        """Return the logged resubmissions by offset; they count as released, even without an entry in the store."""
        resubmitted: dict[int, Deferral] = {}
        for command in commands:
            verdict, outcome = command.outcome.data, command.outcome
            if not isinstance(verdict.deferredfrom, str) or not isinstance(verdict.fingerprint, int):
                continue
            place = entry_key_of(verdict.deferredfrom, self.rules.topic_id, verdict.partition)
            entry = self._would.deferred().find_entry(str(place)) or Deferral(
                topic=place.topic,
                offset=place.offset,
                partition=place.partition,
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
        for placed in events:
            event = placed.message
            try:
                before = states.get(event.subject) or cache.state(event.subject)
                states[event.subject] = fold_event(aggregate, before, event)
            except FoldError as error:
                raise HistoryError("events", placed.record.offset, str(error)) from error
    cache.fold(cache.positions, states)
