"""The store of one partition: states, remembered ids, positions and token, changed together or not at all."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.stored import DedupEntry, StateView, StoredState


class Positions(NamedTuple):
    """The shard's place in the logs: each topic's next offset (a lower bound), and the greatest time."""

    commands: int = 0
    events: int = 0
    outcomes: int = 0
    clock: int = 0  # the greatest timestamp of a decided command record, ms; it never goes back
    deferred: int = 0


class WriteBatch(NamedTuple):
    """One write, whole or not at all: made only if token and positions are still `token` and `start`."""

    token: str
    start: Positions
    end: Positions
    states: Mapping[str, StoredState] = {}  # aggregate id (not empty) → as it is from now on
    remembered: Mapping[tuple[str, str], DedupEntry] = {}  # (subject, command id) → its first decision
    deferred: Mapping[str, Deferral | None] = {}  # key → the deferred command as it is from now on


class NotOwnerError(Exception):
    """Token or positions are not what the writer believes: another owner has written. Nothing was changed."""


class Store(Protocol):
    """One partition's memory. Implementations pass `tests/state/contract.py`; `memory.py` is the short one.

    Remembered ids lie in segments of time, each as long as the dedup window. A store keeps the one that
    the clock of its positions is in and the one before: everything that can still be a duplicate. `apply`
    drops the others as the clock moves on; that decides nothing, since they no longer answer.
    """

    def token(self) -> str:
        """The token of the claim whose owner may write; empty when never claimed."""

    def take_ownership(self, token: str, expected: str) -> None:
        """Hand the shard to a new owner; raises `NotOwnerError` unless the token is still `expected`."""

    def code_digest(self) -> str:
        """The digest of the code that folded these states; empty when never noted."""

    def set_code_digest(self, code: str, token: str) -> None:
        """Note the digest of the code that folds from now on; raises `NotOwnerError` for another's token."""

    def noted(self, name: str) -> bytes:
        """The note of an owner under a name, next to the states; empty if there is none."""

    def note(self, name: str, value: bytes, token: str) -> None:
        """Note it; raises `NotOwnerError` for another's token."""

    def drop(self, names: Collection[str], token: str) -> None:
        """Drop aggregates; raises `NotOwnerError` for another's token."""

    def positions(self) -> Positions:
        """The place where reading continues."""

    def view(self) -> AbstractContextManager[StateView]:
        """A consistent look while the block lasts. Keep it short: old pages cannot be reused meanwhile.

        Of two decisions on one (subject, id), in neighbouring segments, the view gives the later one by its
        timestamp: offsets start again in a topic that was made again.
        """

    def apply(self, change: WriteBatch) -> None:
        """Make the change.

        Raises, with nothing changed: `NotOwnerError` if the token or positions are not the expected ones,
        `ValueError` if the clock goes back or something remembered lies in a segment after it,
        `ConfigurationError` if the disk is full.
        """

    def items(self) -> Iterator[tuple[str, StoredState]]:
        """Every aggregate, in one consistent look, in any order. Finish or close it before the next write."""

    def count(self) -> int:
        """The number of aggregates."""

    @property
    def waiting(self) -> float:
        """Seconds that a transaction of ours has been waiting to begin, 0 if none is; asked from another thread.

        A process that was stopped in the middle of a change lets nobody else begin one, for ever.
        """

    def close(self) -> None:
        """Make it durable and marked clean, then let go. Idempotent."""


#: The remembered decisions of one segment: (subject, command id) → the first decision.
Remembered = Mapping[tuple[str, str], DedupEntry]


def by_segment(change: WriteBatch, window_ms: int) -> tuple[Remembered, Remembered]:
    """The remembered decisions of a change that are in the clock's segment, and those in the one before it.

    Raises `ValueError` for what lies after the clock.
    """
    current = change.end.clock // window_ms
    ages = {current - one.timestamp // window_ms for one in change.remembered.values()}
    if ages <= {0}:  # nearly always: a batch is shorter than the window
        return change.remembered, {}
    if min(ages) < 0:
        latest = max(one.timestamp for one in change.remembered.values())
        raise ValueError(f"remembered at {latest}, after the clock {change.end.clock}")
    now, before = (
        {ids: one for ids, one in change.remembered.items() if one.timestamp // window_ms == segment}
        for segment in (current, current - 1)
    )
    return now, before


def check_clock(change: WriteBatch) -> None:
    """Raises `ValueError` if the change turns the clock back."""
    if change.end.clock < change.start.clock:
        raise ValueError(f"the clock goes back from {change.start.clock} to {change.end.clock}")
