"""The versions and decided command ids of the verified partition, in a store on disk, like the shard of an owner.

New entries are buffered in memory, and written in batches.
"""

import sys
from contextlib import AbstractContextManager
from types import TracebackType

from msgspec.structs import replace

from cqrs_cli.core.stored import DedupEntry, StateView, StoredState
from cqrs_cli.state.store import Store, WriteBatch

#: The number of buffered entries at which the buffer is written.
FLUSH_EVERY = 5_000


class DedupIndex:
    """Versions and command ids, read and written in the order of the commands. Use it as a context manager."""

    def __init__(self, store: Store, flush_every: int = FLUSH_EVERY, parent: int | None = None) -> None:
        """`parent`: the verified partition, if it is verified as the parent of a child partition."""
        self.parent = parent
        self._store = store
        self._flush_every = flush_every
        self.clock = store.positions().clock  # the greatest timestamp so far, ms
        self._states: dict[str, StoredState] = {}
        self._ids: dict[tuple[str, str], DedupEntry] = {}

    def __enter__(self) -> "DedupIndex":
        self._snapshot: AbstractContextManager[StateView] = self._store.view()
        self._view = self._snapshot.__enter__()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._snapshot.__exit__(error_type, error, trace)

    def advance_clock(self, timestamp: int) -> None:
        """Advance the clock to the timestamp (ms) of the next command. The clock never goes back."""
        if len(self._states) + len(self._ids) >= self._flush_every:
            self.flush()
        if timestamp > self.clock:
            self.clock = timestamp

    def find_state(self, aggregate_id: str) -> StoredState | None:
        """Return the state of an aggregate: its version, the command that led to it, and the encoded key entry; None if
        no version is known.
        """
        return self._states.get(aggregate_id) or self._view.find_state(aggregate_id)

    def set_version(
        self, aggregate_id: str, version: int, command_offset: int, key_entry: bytes = b""
    ) -> None:
        """Store the version to which a command led. `key_entry`: the aggregate's encoded `proof.keys.KeyEntry`."""
        self._states[aggregate_id] = StoredState(
            version, command_offset if self.parent is None else 0, 0, key_entry
        )

    def set_key_entry(self, aggregate_id: str, key_entry: bytes) -> None:
        """Store the key entry of an aggregate whose version is known."""
        stored_state = self.find_state(aggregate_id)
        if stored_state is not None:
            self._states[aggregate_id] = replace(stored_state, state=key_entry)

    def find_dedup_entry(self, subject: str, command_id: str) -> DedupEntry | None:
        """Return the last decision on a command id; None if there is no decision within the dedup window."""
        return self._ids.get((subject, command_id)) or self._view.find_dedup_entry(subject, command_id)

    def add_decision(self, subject: str, command_id: str, decision: DedupEntry) -> None:
        """Store a decision as the last decision on a command id."""
        self._ids[subject, command_id] = decision

    def freeze(self) -> None:
        """Write the buffered entries. Later entries stay in memory and are never written."""
        self.flush()
        self._flush_every = sys.maxsize

    def flush(self) -> None:
        """Write the buffered entries. The snapshot is replaced, because an open LMDB snapshot keeps old pages."""
        positions = self._store.positions()
        batch = WriteBatch(
            self._store.token(), positions, positions._replace(clock=self.clock), self._states, self._ids
        )
        self._snapshot.__exit__(None, None, None)
        self._store.apply(batch)
        self._states, self._ids = {}, {}
        self.__enter__()
