"""The index of a verification: entries are mostly appended, but any order is correct."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.state.entry_index import EntryIndex


@pytest.fixture
def index(tmp_path: Path) -> Iterator[EntryIndex]:
    with closing(EntryIndex(tmp_path)) as index:
        yield index


@given(st.data())
def test_first_entry_wins_in_order(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    model: dict[int, bytes] = {}
    commands = st.one_of(st.integers(0, 20), st.sampled_from([2**31, 2**63 - 1]))
    with closing(EntryIndex(tmp_path_factory.mktemp("index"))) as index:
        for number, command in enumerate(data.draw(st.lists(commands))):
            entry = b"%d" % number
            assert index.add_entry(command, entry) == model.get(command)
            model.setdefault(command, entry)
            if data.draw(st.integers(0, 9)) == 0:
                cut = data.draw(commands)
                assert index.delete_from(cut) == sum(offset >= cut for offset in model)
                model = {offset: value for offset, value in model.items() if offset < cut}
        assert list(index.entries()) == sorted(model.items())
        assert (index.first_command(), index.last_command()) == (
            min(model, default=None),
            max(model, default=None),
        )


def test_unflushed_entry_is_found(index: EntryIndex) -> None:
    index.add_entry(3, b"x")
    assert (index.find_entry(3), index.find_entry(4)) == (b"x", None)


def test_first_command_may_be_the_last(index: EntryIndex) -> None:
    index.add_entry(0, b"x")
    assert (index.first_command(), index.last_command()) == (0, 0)


def test_entries_are_flushed_in_batches(tmp_path: Path) -> None:
    with closing(EntryIndex(tmp_path, max_entries=10)) as index:
        for command in range(95):
            index.add_entry(command, b"%d" % command)
        assert list(index.entries()) == [(command, b"%d" % command) for command in range(95)]


def test_full_map_is_enlarged(tmp_path: Path) -> None:
    with closing(EntryIndex(tmp_path, map_size=64 * 1024)) as index:
        for command in range(100):
            index.add_entry(command, bytes(10_000))
        index.add_entry(50, b"")
        assert len(list(index.entries())) == 100


def test_stored_entries_are_read_again(tmp_path: Path) -> None:
    with closing(EntryIndex(tmp_path)) as index:
        for command in range(5):
            index.add_entry(command, b"first")
        index.drop([0, 2])
        index.sync()
    with closing(EntryIndex(tmp_path)) as reopened:
        assert (reopened.last_command(), [command for command, _ in reopened.entries()]) == (4, [1, 3, 4])
        assert reopened.add_entry(3, b"second") == b"first"
        assert reopened.add_entry(5, b"second") is None
