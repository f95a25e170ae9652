"""A partition's state while an owner decides: the shard, and the changes of batches that are committed to Kafka but not
applied to the shard yet.

A change may wait, because after a crash recovery folds it from the log. So one LMDB transaction applies the changes of
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
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.packing import StateEncryption, pack, unpack
from cqrs_cli.deciding.plan import CACHE_BYTES
from cqrs_cli.kafka.topics.partitioner import KeyFilter
from cqrs_cli.observer import reached
from cqrs_cli.state.decoded_states import DecodedStates
from cqrs_cli.state.evidence import Evidence, evidence
from cqrs_cli.state.store import Positions, Store, WriteBatch

#: The maximal number of aggregates that one transaction drops: each of them changes a page in LMDB.
_DROP_BATCH = 10_000

# Names of values in the shard, for `Store.get_value`:

#: The last partition count for which the aggregates of moved keys were dropped.
_DROPPED_COUNT = "kept"

#: The offsets up to which the parents' logs are folded, as JSON: parent partition → `FoldedOfParent`.
_INHERITED_OFFSETS = "inherited"

#: An offset of the events: the key store contains the key changes of all events below it.
_KEYS_OFFSET = "keys"

#: A marker that is set while a key is unresolved, that is, missing and not named by a folded `Erased`.
UNRESOLVED_KEYS_MARKER = "doubtful"

#: The assumed bytes of a state before the first state is applied. The estimate is high, so that a first batch of large
#: states does not fill the memory.
_ASSUMED_STATE_BYTES = 64 * 1024


class FoldedOfParent(NamedTuple):
    """The offsets up to which a parent's logs are folded into a child's shard, for the keys of the child."""

    events: int = 0  # the next offset
    outcomes: int = 0  # the next offset
    commands: int = 0  # the offset after the last of the parent's commands whose outcome is folded
    last_event: Evidence | None = None  # of the last folded event
    last_outcome: Evidence | None = None  # of the last folded outcome


class StateCache:
    """A cache of the states in a store. Changes reach the store in two ways: an owner that decides calls `stage` after
    each commit, and `flush` later; recovery calls `fold`. `flush` and `fold` each write one transaction.
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
        """`token`: the owner's token, which the store compares at each change. `budget`: the bytes for decoded states,
        half for cached states and half for changes that wait to be applied. `keys`: encrypts and decrypts states; None
        for an aggregate without personal fields. `encryption`: used instead of `keys` if there is no keys topic, as in
        a simulation.
        """
        self._aggregate = aggregate
        self._store = store
        self._token = token
        self.keys = keys
        self._encryption = keys if encryption is None else encryption
        self._view: StateView | None = None
        #: `positions`: after all staged changes; `_flushed`: in the store.
        self.positions = self._flushed = store.positions()
        # The staged changes: states by subject, ids to remember, changed entries of deferred commands by key.
        self._states: dict[str, VersionedState] = {}
        self._dedup_entries: dict[tuple[str, str], DedupEntry] = {}
        self._greatest_staged_id = ""  # an upper bound of the ids in `_dedup_entries`
        self._deferred: dict[str, Deferral | None] = {}
        self._decoded = DecodedStates(budget / 2)
        self._waiting_budget = budget / 2
        self._mean_state_bytes: float = _ASSUMED_STATE_BYTES  # of the states that were last applied
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
        """Return the current state of an aggregate, with staged changes; None if the aggregate does not exist."""
        cached_state = self._states.get(aggregate_id) or self._decoded.get(aggregate_id)
        if cached_state is not None:
            return cached_state
        assert self._view is not None
        stored_state = self._view.find_state(aggregate_id)
        if stored_state is None:
            return None
        state = unpack(self._aggregate, aggregate_id, stored_state, self._encryption)
        self._decoded.put_all({aggregate_id: state}, [len(stored_state.state)])
        return state

    def greatest_id(self) -> str:
        """Return an upper bound of the ids that `find_dedup_entry` finds."""
        assert self._view is not None
        return max(self._greatest_staged_id, self._view.greatest_id)

    def find_dedup_entry(self, subject: str, command_id: str) -> DedupEntry | None:
        """Return the first decision about a command id; None if the id is not remembered."""
        staged_entry = self._dedup_entries.get((subject, command_id))
        if staged_entry is not None:
            return staged_entry
        assert self._view is not None
        return self._view.find_dedup_entry(subject, command_id)

    def deferred(self) -> DeferredView:
        """Return the deferred commands in the store. Staged changes of deferred commands must be applied before."""
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
        """Add decisions after they were committed to Kafka; `flush` applies them to the shard. `position`: the offset
        of the next command to decide.

        `events`, `outcomes`, `deferred` and `keys` are the ends of these logs after the commit, None if nothing was
        written; `last_event` and `last_outcome` are the last records (`kafka.writer.WrittenEnds`).
        """
        if self._states or self._dedup_entries:
            self._states.update(decisions.states)
            self._dedup_entries.update(decisions.dedup_entries)
        else:  # the previous batch is already applied, so nothing has to be copied
            self._states, self._dedup_entries = decisions.states, decisions.dedup_entries
        self._greatest_staged_id = max(self._greatest_staged_id, decisions.greatest_id)
        self._deferred = decisions.deferral_changes
        previous_positions = self.positions
        self.positions = Positions(
            position,
            events or previous_positions.events,
            outcomes or previous_positions.outcomes,
            decisions.clock,
            deferred or previous_positions.deferred,
            previous_positions.last_event if last_event is None else evidence(last_event),
            previous_positions.last_outcome if last_outcome is None else evidence(last_outcome),
        )
        if self.keys is not None:
            self.keys.stage(decisions.data_keys, keys)

    def read_keys(self, key_filter: KeyFilter | None = None, clears_store: bool = False) -> None:
        """Read the data keys of the partition's aggregates (`OwnerKeys.read_keys`). Call it after the end of the events
        was requested, and before events are folded. `clears_store`: clear the key store first.
        """
        if self.keys is not None:
            clears_store = clears_store or (
                key_filter is not None and self._dropped_count() < key_filter.partition_count
            )
            self.keys.read_keys(int(self._store.get_value(_KEYS_OFFSET) or 0), key_filter, clears_store)

    def check_keys(self, is_loss_accepted: bool = False) -> None:
        """Raise `ContradictionError` for a lost data key (`OwnerKeys.check_all_resolved`). Call this function after all
        events are folded.
        """
        if self.keys is not None:
            self.keys.check_all_resolved(self.positions.events, is_loss_accepted)

    @property
    def pending_count(self) -> int:
        """The number of decided commands that wait to be applied."""
        return len(self._dedup_entries)

    @property
    def max_waiting_states(self) -> int:
        """The number of changed aggregates that may wait to be applied, by the budget and the mean size of a state."""
        return max(1, int(self._waiting_budget / self._mean_state_bytes))

    def is_full(self) -> bool:
        """Return True if `flush` must be called before more commands are decided: because the budget is used up, or
        because the next batch reads deferred commands, which only the store contains.
        """
        return len(self._states) >= self.max_waiting_states or bool(self._deferred)

    def flush(self) -> None:
        """Apply the staged decisions; raises `NotOwnerError` if another owner has written to the shard."""
        if self.positions == self._flushed and not self._deferred:
            return
        self._apply(self.positions, self._states, self._dedup_entries, self._deferred)
        self._states, self._dedup_entries, self._deferred, self._greatest_staged_id = {}, {}, {}, ""

    def drop_moved_aggregates(self, count: int, is_own_key: Callable[[bytes], bool]) -> None:
        """Drop the aggregates whose keys have moved to another partition (`is_own_key(key)` is False). If they were
        already dropped for the partition count `count`, do nothing.
        """
        if self._dropped_count() >= count:
            return
        self.flush()
        moved_subjects = [subject for subject, _ in self._store.items() if not is_own_key(subject.encode())]
        for start in range(0, len(moved_subjects), _DROP_BATCH):
            self._store.drop_aggregates(moved_subjects[start : start + _DROP_BATCH], self._token)
        self._store.set_value(_DROPPED_COUNT, b"%d" % count, self._token)

    def _dropped_count(self) -> int:
        return int(self._store.get_value(_DROPPED_COUNT) or 0)

    def inherited_offsets(self) -> dict[int, FoldedOfParent]:
        """Return the offsets up to which each parent is folded into the shard, as parent partition → offsets."""
        return msgspec.json.decode(
            self._store.get_value(_INHERITED_OFFSETS) or b"{}", type=dict[int, FoldedOfParent]
        )

    def store_inherited_offsets(self, offsets: Mapping[int, FoldedOfParent]) -> None:
        """Record the offsets up to which each parent is folded into the shard."""
        self._store.set_value(_INHERITED_OFFSETS, msgspec.json.encode(offsets), self._token)

    def report_fold(self, events: int, outcomes: int) -> None:
        """Report that events and outcomes will be folded up to these ends of their logs."""
        positions = self.positions
        reached("fold.before", events=(positions.events, events), outcomes=(positions.outcomes, outcomes))

    def fold(
        self,
        end: Positions,
        states: Mapping[str, VersionedState] | None = None,
        dedup_entries: Mapping[tuple[str, str], DedupEntry] | None = None,
        deferred: Mapping[str, Deferral | None] | None = None,
    ) -> None:
        """Apply changes that were folded from the log to the store. `end`: the positions after these changes. Call this
        function only if no change is staged.
        """
        self._apply(end, states or {}, dedup_entries or {}, deferred or {})
        self.positions = end
        reached("fold.portion", events=end.events, outcomes=end.outcomes)

    def _apply(
        self,
        end: Positions,
        states: Mapping[str, VersionedState],
        dedup_entries: Mapping[tuple[str, str], DedupEntry],
        deferred: Mapping[str, Deferral | None],
    ) -> None:
        """Apply changes to the store in one transaction, and remember the new states as decoded states."""
        stored_states = {
            subject: pack(self._aggregate, subject, state, self._encryption)
            for subject, state in states.items()
        }
        has_unresolved = self.keys is not None and self._flush_keys(self.keys, end)
        self._store.apply(WriteBatch(self._token, self._flushed, end, stored_states, dedup_entries, deferred))
        self._flushed = end
        if self._has_unresolved_keys and not has_unresolved:
            self._store_unresolved_marker(b"")
        if deferred:
            self._refresh_deferred()
        if states:
            sizes = [len(stored_state.state) for stored_state in stored_states.values()]
            self._mean_state_bytes = self._decoded.put_all(states, sizes) / len(states)

    def _flush_keys(self, keys: OwnerKeys, end: Positions) -> bool:
        """Write key changes to the key store before the shard changes, so that the shard is never ahead of the key
        store. Return True if there are unresolved keys.
        """
        if keys.unresolved_keys and not self._has_unresolved_keys:
            self._store_unresolved_marker(b"1")
        if keys.flush(end.events):
            self._store.set_value(_KEYS_OFFSET, b"%d" % end.events, self._token)
        return bool(keys.unresolved_keys)

    def _store_unresolved_marker(self, marker: bytes) -> None:
        self._store.set_value(UNRESOLVED_KEYS_MARKER, marker, self._token)
        self._has_unresolved_keys = bool(marker)
