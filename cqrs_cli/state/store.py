"""Where one partition rests: states, remembered ids, positions and the owner's token, changed together or not at all."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from cqrs_cli.core.memory import Remembered, Saved, View


class Positions(NamedTuple):
    """How far the shard has read: the next offset of each topic (a lower bound), and the running maximum of time."""

    commands: int = 0
    events: int = 0
    outcomes: int = 0
    clock: int = 0  # the greatest timestamp of a decided command record, ms


class Change(NamedTuple):
    """One write, whole or not at all: made only if the token is still `token` and the positions still `start`."""

    token: str
    start: Positions
    end: Positions
    states: Mapping[str, Saved] = {}  # aggregate id → as it is from now on
    remembered: Mapping[tuple[str, str], Remembered] = {}  # (subject, command id) → its first decision


class NotOwnerError(Exception):
    """The shard's token or positions are not what the writer believes: somebody else has written. Nothing was changed."""


class Store(Protocol):
    """One partition's memory. Implementations pass `tests/state/contract.py`; `memory.py` shows how short one can be."""

    def token(self) -> str:
        """Who may write: the token of the owner's claim; empty when never claimed."""

    def take(self, token: str, expected: str) -> None:
        """Hand the shard to a new owner; raises `NotOwnerError` unless the token is still `expected`."""

    def positions(self) -> Positions:
        """Where reading continues."""

    def view(self) -> AbstractContextManager[View]:
        """A consistent look, for as long as the block lasts: keep it short, old pages cannot be reused meanwhile."""

    def apply(self, change: Change) -> None:
        """Make the change; raises `NotOwnerError` if the token or positions are not the expected ones."""

    def forget(self, before: int) -> int:
        """Drop whole generations of remembered ids older than `before` (ms); how many were dropped. Not a decision."""

    def items(self) -> Iterator[tuple[str, Saved]]:
        """Every aggregate, in a consistent look, in any order."""

    def count(self) -> int:
        """How many aggregates exist."""

    def close(self) -> None:
        """Make it durable and marked clean, then let go. Idempotent."""
