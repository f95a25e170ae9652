"""Small values for the tests of stores, so that a test spells out only its own subject."""

from collections.abc import Callable

from cqrs_cli.core.stored import DedupEntry, StoredState
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.store import Positions, Store, WriteBatch

WINDOW = 1000  # ms

#: A function that opens the LMDB store of a test.
OpenStore = Callable[..., LmdbStore]


def stored_state(version: int = 1, state: bytes = b"{}") -> StoredState:
    return StoredState(version, offset=version * 10, eventindex=0, state=state)


def decision(timestamp: int = 0, offset: int = 0, status: str = "accepted") -> DedupEntry:
    return DedupEntry(timestamp, offset, status, version=3, events=2, fingerprint=0xFFFF_FFFF)


def positions_at(clock: int, step: int = 0) -> Positions:
    return Positions(commands=step, events=step, outcomes=step, clock=clock)


def write(store: Store, clock: int | None = None, **change: object) -> None:
    """Apply a change as the present owner, at the store's positions."""
    start = store.positions()
    end = start._replace(commands=start.commands + 1, clock=start.clock if clock is None else clock)
    store.apply(WriteBatch(store.token(), start, end, **change))  # type: ignore[arg-type]


def find_decision(store: Store, subject: str, command_id: str) -> DedupEntry | None:
    with store.view() as view:
        return view.find_dedup_entry(subject, command_id)


def find_state(store: Store, aggregate_id: str) -> StoredState | None:
    with store.view() as view:
        return view.find_state(aggregate_id)
