"""A partition's state while an owner decides: the shard, and changes that are committed to Kafka but not yet applied to
the shard.

After a crash, recovery folds the changes that were not applied. So changes may wait, and one LMDB transaction applies
many commands.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import Decisions
from cqrs_cli.core.deferral.entry import Deferral, DeferredView
from cqrs_cli.core.fold import VersionedState
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import DedupEntry, StateView
from cqrs_cli.deciding.measures import Measures
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.packing import StateEncryption, pack, unpack
from cqrs_cli.deciding.plan import CACHE_BYTES
from cqrs_cli.kafka.topics.partitioner import KeyHome
from cqrs_cli.state.decoded_states import DecodedStates
from cqrs_cli.state.evidence import Evidence, evidence
from cqrs_cli.state.store import Positions, Store, WriteBatch

#: The number of aggregates to drop in one transaction, since each aggregate changes a page in LMDB.
_DROP_BATCH = 10_000

#: Names of values in the shard: the last partition count for which the aggregates of moved keys were dropped, the
#: offsets up to which the parents' logs are folded, and the offset of the events up to which key changes are on disk.
_DROPPED_COUNT, _INHERITED_OFFSETS, _KEYS_OFFSET = "kept", "inherited", "keys"

#: The name of a value in the shard: it is set while a key is missing, and no folded `Erased` names the key yet.
UNRESOLVED_KEYS_MARKER = "doubtful"

#: The assumed bytes of a state before the first state is applied: a first batch of large states must not fill the
#: memory.
_ASSUMED_STATE_BYTES = 64 * 1024


class FoldedOfParent(NamedTuple):
    """The offsets in a parent's logs up to which the shard of a child contains the records of the child's keys."""

    events: int = 0
    outcomes: int = 0
    commands: int = 0  # the offset after the last command whose decision is in the shard
    last_event: Evidence | None = None  # of the last folded record
    last_outcome: Evidence | None = None


class StateCache:
    """A read-through cache of the store.

    `flush` and `fold` each apply one change to the store, with the owner's token.
    """

    def __init__(
        self,
        aggregate: Aggregate,
        store: Store,
        token: str,
        budget: float = CACHE_BYTES,
        keys: OwnerKeys | None = None,
        encryption: StateEncryption | None = None,
    ) -> None:
        """`budget`: bytes for decoded states: half for cached states, half for changes that wait to be applied.
        `keys`: encrypts and decrypts states. `encryption`: used instead of `keys` if there is no keys topic, as in a
        simulation.
        """
        self._aggregate = aggregate
        self._store = store
        self._token = token
        self.keys = keys
        self._encryption = keys if encryption is None else encryption
        self._view: StateView | None = None
        self._flushed = self.positions = store.positions()
        self._states: dict[str, VersionedState] = {}
        self._dedup_entries: dict[tuple[str, str], DedupEntry] = {}
        self._deferred: dict[str, Deferral | None] = {}
        self._decoded = DecodedStates(budget / 2)
        self._waiting_budget = budget / 2
        self._mean_state_bytes: float = _ASSUMED_STATE_BYTES  # of the states that were last applied
        self._measures: Measures | None = None  # receives the progress of folding
        self._has_unresolved_keys = bool(keys is not None and store.get_value(UNRESOLVED_KEYS_MARKER))
        self._refresh_deferred()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Allow calls of `state`, `find_dedup_entry` and `deferred` inside the block."""
        with self._store.view() as view:
            self._view = view
            try:
                yield
            finally:
                self._view = None

    def state(self, aggregate_id: str) -> VersionedState | None:
        """Return the current aggregate; None if it does not exist."""
        cached = self._states.get(aggregate_id) or self._decoded.get(aggregate_id)
        if cached is not None:
            return cached
        assert self._view is not None
        stored = self._view.find_state(aggregate_id)
        if stored is None:
            return None
        folded = unpack(self._aggregate, aggregate_id, stored, self._encryption)
        self._decoded.put_all({aggregate_id: folded}, [len(stored.state)])
        return folded

    def find_dedup_entry(self, subject: str, command_id: str) -> DedupEntry | None:
        """Return the first decision on a command; None if it is not remembered."""
        staged_entry = self._dedup_entries.get((subject, command_id))
        if staged_entry is not None:
            return staged_entry
        assert self._view is not None
        return self._view.find_dedup_entry(subject, command_id)

    def deferred(self) -> DeferredView:
        """Return the deferred commands. The changes of a batch must be applied before the next batch calls this."""
        assert self._view is not None and not self._deferred
        return self._view.deferred_view()

    def _refresh_deferred(self) -> None:
        with self._store.view() as view:
            deferred = view.deferred_view()
            self.has_deferred, self.next_due = not deferred.is_empty(), deferred.next_due()

    def stage(
        self,
        decisions: Decisions,
        position: int,
        events: int | None,
        outcomes: int | None,
        deferred: int | None = None,
        keys: int | None = None,
        last_event: Record | None = None,
        last_outcome: Record | None = None,
    ) -> None:
        """Add decisions that were committed to Kafka, never earlier; `flush` applies them to the shard.

        `events` to `last_outcome` are the ends of the logs after the commit, and the last records
        (`kafka.writer.WrittenEnds`).
        """
        if self._states or self._dedup_entries:
            self._states.update(decisions.states)
            self._dedup_entries.update(decisions.dedup_entries)
        else:  # the usual case under load: the previous batch is already applied
            self._states, self._dedup_entries = decisions.states, decisions.dedup_entries
        self._deferred = decisions.deferral_changes
        before = self.positions
        self.positions = Positions(
            position,
            events or before.events,
            outcomes or before.outcomes,
            decisions.clock,
            deferred or before.deferred,
            before.last_event if last_event is None else evidence(last_event),
            before.last_outcome if last_outcome is None else evidence(last_outcome),
        )
        if self.keys is not None:
            self.keys.stage(decisions.data_keys, keys)

    def learn_keys(self, key_filter: KeyHome | None = None, clears_store: bool = False) -> None:
        """Read the keys of the partition's own aggregates. Call it after the end of the events was requested, and
        before events are folded. `clears_store`: clear the key store first.
        """
        if self.keys is not None:
            clears_store = clears_store or (
                key_filter is not None and self._dropped_count() < key_filter.partition_count
            )
            self.keys.read_keys(int(self._store.get_value(_KEYS_OFFSET) or 0), key_filter, clears_store)

    def check_keys(self, is_loss_accepted: bool = False) -> None:
        """Raise `ContradictionError` for a lost key, unless a loss was accepted. All events must be folded."""
        if self.keys is not None:
            self.keys.check_all_resolved(self.positions.events, is_loss_accepted)

    @property
    def pending(self) -> int:
        """The number of decisions that wait to be applied."""
        return len(self._dedup_entries)

    @property
    def max_waiting(self) -> int:
        """The number of changed aggregates that may wait to be applied, by the budget."""
        return max(1, int(self._waiting_budget / self._mean_state_bytes))

    def is_full(self) -> bool:
        """Return True if no more changes may wait."""
        return len(self._states) >= self.max_waiting or bool(self._deferred)

    def flush(self) -> None:
        """Apply the staged decisions; raises `NotOwnerError` if another owner has written to the shard."""
        if self.positions == self._flushed and not self._deferred:
            return
        self._apply(self.positions, self._states, self._dedup_entries, self._deferred)
        self._states, self._dedup_entries, self._deferred = {}, {}, {}

    def drop_moved_aggregates(self, count: int, is_own_key: Callable[[bytes], bool]) -> None:
        """Drop the aggregates of keys that have moved, unless they were already dropped for the partition count
        `count`.
        """
        if self._dropped_count() >= count:
            return
        self.flush()
        moved = [subject for subject, _ in self._store.items() if not is_own_key(subject.encode())]
        for start in range(0, len(moved), _DROP_BATCH):
            self._store.drop_aggregates(moved[start : start + _DROP_BATCH], self._token)
        self._store.set_value(_DROPPED_COUNT, b"%d" % count, self._token)

    def _dropped_count(self) -> int:
        return int(self._store.get_value(_DROPPED_COUNT) or 0)

    def inherited(self) -> dict[int, FoldedOfParent]:
        """Return the offsets up to which each parent is folded into the shard, by partition."""
        return msgspec.json.decode(
            self._store.get_value(_INHERITED_OFFSETS) or b"{}", type=dict[int, FoldedOfParent]
        )

    def store_inherited(self, inherited: Mapping[int, FoldedOfParent]) -> None:
        """Record the offsets up to which each parent is folded into the shard."""
        self._store.set_value(_INHERITED_OFFSETS, msgspec.json.encode(inherited), self._token)

    def watch_folding(self, measures: Measures, events: int, outcomes: int) -> None:
        """Report the progress of folding to `measures`, up to these ends of the logs."""
        positions, self._measures = self.positions, measures
        measures.fold_from((positions.events, events), (positions.outcomes, outcomes))

    def fold(
        self,
        end: Positions,
        states: Mapping[str, VersionedState] | None = None,
        dedup_entries: Mapping[tuple[str, str], DedupEntry] | None = None,
        deferred: Mapping[str, Deferral | None] | None = None,
    ) -> None:
        """Apply records that were read from the log; nothing may be staged."""
        self._apply(end, states or {}, dedup_entries or {}, deferred or {})
        self.positions = end
        if self._measures is not None:
            self._measures.record_folded(end.events, end.outcomes)

    def _apply(
        self,
        end: Positions,
        states: Mapping[str, VersionedState],
        dedup_entries: Mapping[tuple[str, str], DedupEntry],
        deferred: Mapping[str, Deferral | None],
    ) -> None:
        packed = {
            subject: pack(self._aggregate, subject, folded, self._encryption)
            for subject, folded in states.items()
        }
        has_unresolved = self.keys is not None and self._flush_keys(self.keys, end)
        self._store.apply(WriteBatch(self._token, self._flushed, end, packed, dedup_entries, deferred))
        self._flushed = end
        if self._has_unresolved_keys and not has_unresolved:
            self._store_unresolved_marker(b"")
        if deferred:
            self._refresh_deferred()
        if states:
            sizes = [len(stored.state) for stored in packed.values()]
            self._mean_state_bytes = self._decoded.put_all(states, sizes) / len(states)

    def _flush_keys(self, keys: OwnerKeys, end: Positions) -> bool:
        """Write changes of keys to disk before the shard changes, so that the shard is never ahead of the key cache.
        Return True if there are unresolved keys.
        """
        if keys.unresolved_keys and not self._has_unresolved_keys:
            self._store_unresolved_marker(b"1")
        if keys.flush(end.events):
            self._store.set_value(_KEYS_OFFSET, b"%d" % end.events, self._token)
        return bool(keys.unresolved_keys)

    def _store_unresolved_marker(self, marker: bytes) -> None:
        self._store.set_value(UNRESOLVED_KEYS_MARKER, marker, self._token)
        self._has_unresolved_keys = bool(marker)
