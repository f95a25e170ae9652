"""Two stores are read in parallel."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.stored import StoredState
from cqrs_cli.scans.verify.pairs import merge_aggregates
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.store import Positions, WriteBatch

names = st.sampled_from(["a", "b", "é", "z" * 510, "z" * 511, "z" * 512, "y" * 600, "ÿ" * 300, "\U0010ffff"])


def stored_aggregates(versions: dict[str, int], folder: Path) -> list[tuple[str, StoredState]]:
    """Return aggregates in the order in which a store returns them."""
    store = LmdbStore(folder, window_ms=1)
    states = {name: StoredState(version, 0, 0, b"") for name, version in versions.items()}
    store.apply(WriteBatch("", Positions(), Positions(), states))
    items = list(store.items())
    store.close_without_sync()
    return items


@given(st.dictionaries(names, st.integers(1, 2)), st.dictionaries(names, st.integers(1, 2)))
def test_merge_yields_each_aggregate_once(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, int], second: dict[str, int]
) -> None:
    stores = [
        iter(stored_aggregates(versions, tmp_path_factory.mktemp("store"))) for versions in (first, second)
    ]
    merged = {
        name: tuple(state and state.version for state in states)
        for name, *states in merge_aggregates(*stores)
    }
    assert merged == {name: (first.get(name), second.get(name)) for name in first | second}
