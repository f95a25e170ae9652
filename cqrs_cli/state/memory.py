"""The store of one partition in memory. It is lost with the process, and the next owner rebuilds it from the log.

States and decisions are encoded as for LMDB (`encoding.py`). Bytes need less than half of the memory of objects, and
the garbage collector does not track them.
"""

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from sys import getsizeof, maxsize
from typing import Generic, TypeVar

from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.stored import NO_BOUND, DedupEntry, StateView, StoredState
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.observer import reached
from cqrs_cli.state import encoding
from cqrs_cli.state.store import NotOwnerError, Positions, WriteBatch, check_clock, split_by_segment

#: The bytes of a dict entry without key and value: 30 in a full dict, 60 after the dict was enlarged.
_SLOT_BYTES = 60

_K = TypeVar("_K", str, bytes)


class StoreFullError(ConfigurationError):
    """The stores of a process exceed the setting `store_limit`. A retry helps after the setting was changed."""


class MemoryBudget:
    """The memory limit for all stores of a process, in bytes. `used` is their present size."""

    def __init__(self, limit: int = maxsize) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self.used = 0

    def reserve(self, size: int) -> None:
        """Reserve `size` bytes, or release bytes if it is negative; raises `StoreFullError`, with nothing reserved."""
        with self._lock:
            if size > 0 and self.used + size > self._limit:
                raise StoreFullError(
                    f"the states and remembered ids of this process need more than store_limit, "
                    f"{self._limit / (1 << 20):,.0f} MiB",
                    'raise store_limit, or keep them on disk: store = "lmdb"; a shorter dedup_window needs less',
                )
            self.used += size


class MemoryStore:
    """A `Store` in dicts. `window_ms` is the dedup window, and the length of a segment."""

    seconds_waiting_for_lock = 0.0

    def __init__(self, window_ms: int, budget: MemoryBudget | None = None) -> None:
        self._window_ms = window_ms
        self._budget = budget or MemoryBudget()
        self._token = ""
        self._code_digest = ""
        self._positions = Positions()
        self._values: dict[str, bytes] = {}
        self._states: _Table[str] = _Table()
        self._segments: dict[int, _Table[bytes]] = {}
        self._deferred = DeferralTable()
        self._open_views = 0  # number of open views and listings; their data must not change

    def token(self) -> str:
        return self._token

    def take_ownership(self, token: str, expected: str) -> None:
        self._check_owner(expected)
        self._token = token

    def code_digest(self) -> str:
        return self._code_digest

    def set_code_digest(self, code: str, token: str) -> None:
        self._check_owner(token)
        self._code_digest = code

    def get_value(self, name: str) -> bytes:
        return self._values.get(name, b"")

    def set_value(self, name: str, value: bytes, token: str) -> None:
        self._check_owner(token)
        self._values[name] = value

    def drop_aggregates(self, names: Collection[str], token: str) -> None:
        self._check_owner(token)
        old_size = self.size
        self._states = self._states.without(set(names))
        self._budget.reserve(self.size - old_size)

    def positions(self) -> Positions:
        return self._positions

    @contextmanager
    def view(self) -> Iterator[StateView]:
        with self._count_open_view():
            segments = [segment.entries for segment in self._segments.values()]
            yield _MemoryView(self._states.entries, segments, self._deferred)

    def apply(self, change: WriteBatch) -> None:
        """Make the change. Also raises `StoreFullError`, with nothing changed."""
        check_clock(change)
        states = {name: encoding.encode_state(stored) for name, stored in change.states.items()}
        entries_by_age = [  # the entries of the current segment, then of the previous segment
            dict(encoding.encode_dedup_entries(entries))
            for entries in split_by_segment(change, self._window_ms)
        ]
        reached("apply.before")
        self._check_owner(change.token)
        if change.start != self._positions:
            raise NotOwnerError(f"positions are {self._positions}, not {change.start}")
        current_segment = change.end.clock // self._window_ms
        segments: dict[int, _Table[bytes]] = {
            number: self._segments.get(number, _Table()) for number in (current_segment, current_segment - 1)
        }
        is_viewed = self._open_views > 0
        with ExitStack() as undo:  # a change that fails half-way, for lack of memory, is undone
            old_size = self.size
            self._states.put(states, undo, is_viewed)
            for age, entries in enumerate(entries_by_age):
                segments[current_segment - age].put(entries, undo, is_viewed)
            id_bytes = sum(segment.bytes for segment in segments.values())
            deferred_bytes = self._deferred.bytes + self._deferred.added_bytes(change.deferred)
            added_bytes = self._states.bytes + id_bytes + deferred_bytes - old_size
            self._budget.reserve(added_bytes)
            undo.callback(self._budget.reserve, -added_bytes)
            reached("apply.inside")
            undo.pop_all()
        if change.deferred:
            self._deferred = self._deferred.copy() if is_viewed else self._deferred
            self._deferred.apply_changes(change.deferred)
        self._segments, self._positions = segments, change.end
        reached("apply.after")

    def items(self) -> Iterator[tuple[str, StoredState]]:
        with self._count_open_view():
            for name, value in self._states.entries.items():
                yield name, encoding.decode_state(value)

    def count(self) -> int:
        return len(self._states.entries)

    @property
    def size(self) -> int:
        """The size of the store in bytes."""
        id_bytes = sum(segment.bytes for segment in self._segments.values())
        return self._states.bytes + id_bytes + self._deferred.bytes

    def close(self) -> None:
        self._budget.reserve(-self.size)
        self._states, self._segments, self._deferred = _Table(), {}, DeferralTable()

    def close_as_damaged(self) -> None:
        """Close the store, because it is damaged. The next store is rebuilt from the log."""
        self.close()

    def _check_owner(self, token: str) -> None:
        if token != self._token:
            raise NotOwnerError(f"the token is {self._token!r}, not {token!r}")

    @contextmanager
    def _count_open_view(self) -> Iterator[None]:
        self._open_views += 1
        try:
            yield
        finally:
            self._open_views -= 1


class _Table(Generic[_K]):
    """A dict of entries with its size in bytes."""

    def __init__(self) -> None:
        self.entries: dict[_K, bytes] = {}
        self.bytes = 0

    def put(self, new_entries: Mapping[_K, bytes], undo: ExitStack, is_viewed: bool) -> None:
        """Add entries; `undo` removes them again. If a view is open (`is_viewed`), a copy of the dict is changed."""
        old_values = {key: self.entries.get(key) for key in new_entries}
        undo.callback(self._restore, self.entries, old_values, self.bytes)
        if is_viewed:
            self.entries = dict(self.entries)
        for (key, value), old_value in zip(new_entries.items(), old_values.values(), strict=True):
            if old_value is None:
                self.bytes += _SLOT_BYTES + getsizeof(key) + getsizeof(value)
            else:
                self.bytes += getsizeof(value) - getsizeof(old_value)
        self.entries.update(new_entries)

    def without(self, keys: set[_K]) -> "_Table[_K]":
        """Return a new table without these entries; this table is unchanged, because a view may be open."""
        table: _Table[_K] = _Table()
        table.entries = {key: value for key, value in self.entries.items() if key not in keys}
        removed_entries = ((key, self.entries[key]) for key in keys if key in self.entries)
        table.bytes = self.bytes - sum(
            _SLOT_BYTES + getsizeof(key) + getsizeof(value) for key, value in removed_entries
        )
        return table

    def _restore(self, entries: dict[_K, bytes], old_values: Mapping[_K, bytes | None], size: int) -> None:
        """Undo `put`: restore the dict and its size. `old_values`: key → the value before, None if the key was new."""
        self.bytes = size
        if self.entries is not entries:
            self.entries = entries
            return
        for key, value in old_values.items():
            if value is None:
                entries.pop(key, None)
            else:
                entries[key] = value


class _MemoryView:
    """A `StateView` of dicts that do not change while the view is open."""

    __slots__ = ("_deferred", "_segments", "_states", "greatest_id")

    def __init__(
        self, states: Mapping[str, bytes], segments: list[dict[bytes, bytes]], deferred: DeferralTable
    ) -> None:
        self._states, self._segments, self._deferred = states, segments, deferred
        self.greatest_id = NO_BOUND

    def deferred_view(self) -> DeferralTable:
        return self._deferred

    def find_state(self, aggregate_id: str) -> StoredState | None:
        value = self._states.get(aggregate_id)
        return None if value is None else encoding.decode_state(value)

    def find_dedup_entry(self, subject: str, command_id: str) -> DedupEntry | None:
        whole_key = encoding.dedup_key(subject, command_id)
        key = whole_key if len(whole_key) <= encoding.MAX_KEY else encoding.shorten(whole_key)
        values = [segment[key] for segment in self._segments if key in segment]
        entries = [encoding.decode_whole_dedup(value, whole_key) for value in values]
        return max(entries, key=lambda entry: entry.timestamp, default=None)
