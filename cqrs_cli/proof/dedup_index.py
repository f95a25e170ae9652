"""What a proof remembers of a partition, as an owner would: versions and decided ids, in a store on disk.

What is new waits in memory until some thousand commands make one write.
"""

from contextlib import AbstractContextManager
from types import TracebackType

from cqrs_cli.core.stored import DedupEntry, StateView, StoredState
from cqrs_cli.state.store import Store, WriteBatch

#: So many changes make one write.
SETTLE_EVERY = 5_000


class DedupIndex:
    """Asked and told in the order of the commands. Use as a context manager."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.clock = store.positions().clock  # the greatest timestamp so far, ms
        self._states: dict[str, StoredState] = {}
        self._ids: dict[tuple[str, str], DedupEntry] = {}

    def __enter__(self) -> "DedupIndex":
        self._look: AbstractContextManager[StateView] = self._store.view()
        self._view = self._look.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._look.__exit__(kind, error, trace)

    def at(self, timestamp: int) -> None:
        """A command of this time is the next."""
        if len(self._states) + len(self._ids) >= SETTLE_EVERY:
            self.settle()
        if timestamp > self.clock:
            self.clock = timestamp

    def saved(self, aggregate_id: str) -> StoredState | None:
        """The version of an aggregate, and the command that led to it."""
        return self._states.get(aggregate_id) or self._view.saved(aggregate_id)

    def save(self, aggregate_id: str, version: int, command: int) -> None:
        """Remember that a command led to this version."""
        self._states[aggregate_id] = StoredState(version, command, 0, b"")

    def remembered(self, subject: str, command_id: str) -> DedupEntry | None:
        """The last decision on an id; None also for one that was too long ago to count."""
        return self._ids.get((subject, command_id)) or self._view.remembered(subject, command_id)

    def remember(self, subject: str, command_id: str, decision: DedupEntry) -> None:
        """Remember a decision; of the time that was said last."""
        self._ids[subject, command_id] = decision

    def settle(self) -> None:
        """Write what waits. No look is open meanwhile: it would keep old pages, and the store from growing."""
        start = self._store.positions()
        change = WriteBatch(
            self._store.token(), start, start._replace(clock=self.clock), self._states, self._ids
        )
        self._look.__exit__(None, None, None)
        self._store.apply(change)
        self._states, self._ids = {}, {}
        self.__enter__()
