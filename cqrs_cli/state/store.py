"""The interface of a partition's store, which changes states, remembered ids, positions and token atomically."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import DedupEntry, StateView, StoredState
from cqrs_cli.state.evidence import Evidence, evidence_at


class Positions(NamedTuple):
    """The shard's position in each topic, and the shard's clock. A position is the next offset to fold, or an earlier
    offset: folding is idempotent.
    """

    commands: int = 0
    events: int = 0
    outcomes: int = 0
    clock: int = 0  # the greatest timestamp of a decided command record, ms; it never decreases
    deferred: int = 0
    last_event: Evidence | None = None  # of the last folded event; None if no event was folded
    last_outcome: Evidence | None = None  # of the last folded outcome; None if no outcome was folded

    @property
    def folded_events(self) -> int:
        """The offset of the next event to fold. If no event was folded, it is 0 instead of `events`: without evidence,
        `events` may be an offset of another log.
        """
        return 0 if self.last_event is None else self.events

    @property
    def folded_outcomes(self) -> int:
        """The offset of the next outcome to fold; 0 if no outcome was folded."""
        return 0 if self.last_outcome is None else self.outcomes

    def after_event(self, log_records: Sequence[Record], offset: int) -> "Positions":
        """Return the positions after the event at `offset`; `log_records` are unchanged records of the log."""
        return self._replace(events=offset + 1, last_event=evidence_at(log_records, offset))


class WriteBatch(NamedTuple):
    """One atomic write. It requires that the store's token and positions are still `token` and `start`."""

    token: str
    start: Positions
    end: Positions
    states: Mapping[str, StoredState] = {}  # aggregate id (not empty) → new state
    dedup_entries: Mapping[tuple[str, str], DedupEntry] = {}  # (subject, command id) → the first decision
    deferred: Mapping[str, Deferral | None] = {}  # key → new entry; None removes the entry


class NotOwnerError(Exception):
    """The store has another token or other positions than the writer expects, because another owner has written.

    Nothing was changed.
    """


class Store(Protocol):
    """The store of one partition. Implementations pass `tests/state/contract.py`; `memory.py` is the shortest.

    Remembered ids are grouped in segments of time, each as long as the dedup window. A store keeps the segment of its
    clock and the previous segment, which contain every id that can still have a duplicate. `apply` drops older segments
    when the clock advances. This changes no decision, because their ids are no longer in the dedup window.
    """

    def token(self) -> str:
        """Return the token of the claim whose owner may write; empty if there was no claim."""

    def take_ownership(self, token: str, expected: str) -> None:
        """Set the token of a new owner; raises `NotOwnerError` unless the present token is `expected`."""

    def code_digest(self) -> str:
        """Return the digest of the code that folded the states; empty if it was never set."""

    def set_code_digest(self, code: str, token: str) -> None:
        """Set the digest of the code that folds from now on; raises `NotOwnerError` for a wrong token."""

    def get_value(self, name: str) -> bytes:
        """Return the value that an owner stored under a name with `set_value`; empty without a value."""

    def set_value(self, name: str, value: bytes, token: str) -> None:
        """Store a value under a name; raises `NotOwnerError` for a wrong token."""

    def drop_aggregates(self, names: Collection[str], token: str) -> None:
        """Remove aggregates by id; raises `NotOwnerError` for a wrong token."""

    def positions(self) -> Positions:
        """Return the positions from which folding continues."""

    def view(self) -> AbstractContextManager[StateView]:
        """Return a consistent view for a `with` block. Keep the block short: an open view prevents the reuse of pages.

        If consecutive segments contain decisions on the same (subject, id), the view returns the decision with the
        later timestamp. Offsets would be misleading, because they restart in a recreated topic.
        """

    def apply(self, change: WriteBatch) -> None:
        """Make the change.

        Raises, with nothing changed: `NotOwnerError` for a wrong token or wrong positions, `ValueError` if the clock
        decreases or a decision is in a segment after the clock's, `ConfigurationError` if the disk is full.
        """

    def items(self) -> Iterator[tuple[str, StoredState]]:
        """Yield every aggregate of one consistent view, in any order. Exhaust or close it before the next write."""

    def count(self) -> int:
        """Return the number of aggregates."""

    @property
    def seconds_waiting_for_lock(self) -> float:
        """Seconds for which a transaction of this process has been waiting to begin, else 0; read by other threads.

        While another process is stopped during a change, no transaction can begin.
        """

    def close(self) -> None:
        """Sync the store, mark it as clean, and close it. Idempotent."""


#: (subject, command id) → the first decision.
DedupEntries = Mapping[tuple[str, str], DedupEntry]


def split_by_segment(change: WriteBatch, window_ms: int) -> tuple[DedupEntries, DedupEntries]:
    """Return the dedup entries of a change in two parts: the entries in the segment of the clock, and the entries in
    the previous segment.

    Raises `ValueError` for a decision in a segment after the clock's segment.
    """
    current_segment = change.end.clock // window_ms
    ages = {current_segment - entry.timestamp // window_ms for entry in change.dedup_entries.values()}
    # Nearly always all entries are in the current segment, because a batch is shorter than the window.
    if ages <= {0}:
        return change.dedup_entries, {}
    if min(ages) < 0:
        latest_timestamp = max(entry.timestamp for entry in change.dedup_entries.values())
        raise ValueError(f"remembered at {latest_timestamp}, after the clock {change.end.clock}")

    def entries_of(segment: int) -> DedupEntries:
        return {
            key: entry
            for key, entry in change.dedup_entries.items()
            if entry.timestamp // window_ms == segment
        }

    return entries_of(current_segment), entries_of(current_segment - 1)


def check_clock(change: WriteBatch) -> None:
    """Raise `ValueError` if the change would decrease the clock."""
    if change.end.clock < change.start.clock:
        raise ValueError(f"the clock goes back from {change.start.clock} to {change.end.clock}")
