"""A partition's state while it is owned: the shard, and above it what is committed to Kafka but not yet applied.

Recovery folds what a crash kept from being applied, so applying may wait: one LMDB transaction for many commands.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.context import Decisions
from cqrs_cli.core.deferral.entry import Deferral, DeferredView
from cqrs_cli.core.fold import Folded
from cqrs_cli.core.stored import DedupEntry, StateView
from cqrs_cli.deciding.measures import Measures
from cqrs_cli.deciding.owner_keys import OwnerKeys
from cqrs_cli.deciding.packing import StateSeal, pack, unpack
from cqrs_cli.kafka.topics.partitioner import KeyHome
from cqrs_cli.state.decoded_states import DecodedStates
from cqrs_cli.state.store import Positions, Store, WriteBatch

#: Bytes that decoded states may take in one partition, unless the plan says otherwise.
CACHE_BYTES = 64 * 1024 * 1024

#: Aggregates that are dropped at once: in LMDB each dirties a page.
_PORTION = 10_000

#: Names of notes in the shard: by how many partitions its aggregates were last sorted out, what it has of parents, and
#: the events up to which keys have changed.
_KEPT, _INHERITED, _KEYS = "kept", "inherited", "keys"

#: The note of a shard with placeholders for what is sealed with a key that no `Erased` has named yet.
DOUBTFUL = "doubtful"

#: Bytes that a state is taken to need before any was applied: a first batch of large ones must not fill the memory.
_UNKNOWN = 64 * 1024


class FoldedOfParent(NamedTuple):
    """The offsets up to which a parent's logs are in the shard of a child, as far as they are of its keys."""

    events: int = 0
    outcomes: int = 0
    commands: int = 0  # behind the last one whose decision is in it


class StateCache:
    """Reads through to the store; writes only through `flush` and `fold`, each one change under the owner's token."""

    def __init__(
        self,
        aggregate: Aggregate,
        store: Store,
        token: str,
        budget: float = CACHE_BYTES,
        keys: OwnerKeys | None = None,
        seal: StateSeal | None = None,
    ) -> None:
        """`budget`: bytes that decoded states may take: half of it those that are kept, half those to be applied.
        `keys`: to seal and open by; `seal`: the same for a store that has no keys in a topic.
        """
        self._aggregate = aggregate
        self._store = store
        self._token = token
        self.keys = keys
        self._seal = keys if seal is None else seal
        self._view: StateView | None = None
        self._flushed = self.positions = store.positions()
        self._states: dict[str, Folded] = {}
        self._remembered: dict[tuple[str, str], DedupEntry] = {}
        self._deferred: dict[str, Deferral | None] = {}
        self._decoded = DecodedStates(budget / 2)
        self._waiting_budget = budget / 2
        self._mean: float = _UNKNOWN  # bytes of a state, as last applied
        self._measures: Measures | None = None  # told how far folding is
        self._is_doubtful = bool(keys is not None and store.noted(DOUBTFUL))
        self._look_at_deferred()

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Inside the block `state` and `remembered` may be asked."""
        with self._store.view() as view:
            self._view = view
            try:
                yield
            finally:
                self._view = None

    def state(self, aggregate_id: str) -> Folded | None:
        """The aggregate now, None if it does not exist."""
        known = self._states.get(aggregate_id) or self._decoded.get(aggregate_id)
        if known is not None:
            return known
        assert self._view is not None
        saved = self._view.saved(aggregate_id)
        if saved is None:
            return None
        folded = unpack(self._aggregate, aggregate_id, saved, self._seal)
        self._decoded.keep_all({aggregate_id: folded}, [len(saved.state)])
        return folded

    def remembered(self, subject: str, command_id: str) -> DedupEntry | None:
        """The first decision on a command."""
        known = self._remembered.get((subject, command_id))
        if known is not None:
            return known
        assert self._view is not None
        return self._view.remembered(subject, command_id)

    def deferred(self) -> DeferredView:
        """The deferred commands. What a batch has changed of them is applied before the next one asks."""
        assert self._view is not None and not self._deferred
        return self._view.deferred()

    def _look_at_deferred(self) -> None:
        with self._store.view() as view:
            deferred = view.deferred()
            self.has_deferred, self.next_due = not deferred.is_empty(), deferred.next_due()

    def stage(
        self,
        decisions: Decisions,
        position: int,
        events: int | None,
        outcomes: int | None,
        deferred: int | None = None,
        keys: int | None = None,
    ) -> None:
        """Keep decisions that were just committed to Kafka, never earlier; `flush` applies them to the shard."""
        if self._states or self._remembered:
            self._states.update(decisions.states)
            self._remembered.update(decisions.remembered)
        else:  # the usual case under load: each batch is applied alone
            self._states, self._remembered = decisions.states, decisions.remembered
        self._deferred = decisions.deferred
        before = self.positions
        self.positions = Positions(
            position,
            events or before.events,
            outcomes or before.outcomes,
            decisions.clock,
            deferred or before.deferred,
        )
        if self.keys is not None:
            self.keys.stage(decisions.keys, keys)

    def learn_keys(self, keeps: KeyHome | None = None, afresh: bool = False) -> None:
        """Read the keys of its own aggregates, before events are folded and after their end was asked for."""
        if self.keys is not None:
            afresh = afresh or (keeps is not None and self._kept() < keeps.among)
            self.keys.learn(int(self._store.noted(_KEYS) or 0), keeps, afresh)

    def check_keys(self, accepted: bool = False) -> None:
        """Raise `ContradictionError` for a lost key, unless a loss was `accepted`; all events are folded."""
        if self.keys is not None:
            self.keys.check_level(self.positions.events, accepted)

    @property
    def pending(self) -> int:
        """The number of decisions that wait to be applied."""
        return len(self._remembered)

    @property
    def most_waiting(self) -> int:
        """The number of changed aggregates that may wait to be applied: more would be too many bytes."""
        return max(1, int(self._waiting_budget / self._mean))

    def is_full(self) -> bool:
        """True if no more changes may wait."""
        return len(self._states) >= self.most_waiting or bool(self._deferred)

    def flush(self) -> None:
        """Apply the staged decisions; raises `NotOwnerError` if somebody else has written the shard."""
        if self.positions == self._flushed and not self._deferred:
            return
        self._apply(self.positions, self._states, self._remembered, self._deferred)
        self._states, self._remembered, self._deferred = {}, {}, {}

    def keep(self, count: int, is_ours: Callable[[bytes], bool]) -> None:
        """Drop the aggregates of keys that have moved, unless that was done for this number of partitions."""
        if self._kept() >= count:
            return
        self.flush()
        moved = [name for name, _ in self._store.items() if not is_ours(name.encode())]
        for start in range(0, len(moved), _PORTION):
            self._store.drop(moved[start : start + _PORTION], self._token)
        self._store.note(_KEPT, b"%d" % count, self._token)

    def _kept(self) -> int:
        return int(self._store.noted(_KEPT) or 0)

    def inherited(self) -> dict[int, FoldedOfParent]:
        """The offset up to which each parent is folded into the shard, by partition."""
        return msgspec.json.decode(self._store.noted(_INHERITED) or b"{}", type=dict[int, FoldedOfParent])

    def note_inherited(self, inherited: Mapping[int, FoldedOfParent]) -> None:
        """Note that the shard has all of this."""
        self._store.note(_INHERITED, msgspec.json.encode(inherited), self._token)

    def watch_folding(self, measures: Measures, events: int, outcomes: int) -> None:
        """Tell the measures how far folding is, on its way to these ends of the logs."""
        at, self._measures = self.positions, measures
        measures.fold_from((at.events, events), (at.outcomes, outcomes))

    def fold(
        self,
        end: Positions,
        states: Mapping[str, Folded] | None = None,
        remembered: Mapping[tuple[str, str], DedupEntry] | None = None,
        deferred: Mapping[str, Deferral | None] | None = None,
    ) -> None:
        """Apply what was read back from the log; nothing may be staged."""
        self._apply(end, states or {}, remembered or {}, deferred or {})
        self.positions = end
        if self._measures is not None:
            self._measures.folded(end.events, end.outcomes)

    def _apply(
        self,
        end: Positions,
        states: Mapping[str, Folded],
        remembered: Mapping[tuple[str, str], DedupEntry],
        deferred: Mapping[str, Deferral | None],
    ) -> None:
        packed = {name: pack(self._aggregate, name, folded, self._seal) for name, folded in states.items()}
        doubts = self.keys is not None and self._flush_keys(self.keys, end)
        self._store.apply(WriteBatch(self._token, self._flushed, end, packed, remembered, deferred))
        self._flushed = end
        if self._is_doubtful and not doubts:
            self._note_doubts(b"")
        if deferred:
            self._look_at_deferred()
        if states:
            sizes = [len(saved.state) for saved in packed.values()]
            self._mean = self._decoded.keep_all(states, sizes) / len(states)

    def _flush_keys(self, keys: OwnerKeys, end: Positions) -> bool:
        """Write down what the shard must not know before the cache of keys does: true if it has doubts."""
        if keys.doubts and not self._is_doubtful:
            self._note_doubts(b"1")
        if keys.flush(end.events):
            self._store.note(_KEYS, b"%d" % end.events, self._token)
        return bool(keys.doubts)

    def _note_doubts(self, doubts: bytes) -> None:
        self._store.note(DOUBTFUL, doubts, self._token)
        self._is_doubtful = bool(doubts)
