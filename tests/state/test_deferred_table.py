"""Deferred commands in LMDB and in memory return the same after any changes."""

import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from cqrs_cli.core.deferral.entry import Deferral, DeferredView
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.state import deferred_table
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.memory import MemoryBudget, MemoryStore
from cqrs_cli.state.store import Positions, WriteBatch

IDS = ["x", "y", "i" * 600]
TIMES = [0, 1, 2, 10**15]


@st.composite
def entries(draw: st.DrawFn) -> Deferral:
    resubmitted_offset = draw(st.none() | st.integers(0, 3))
    return Deferral(
        topic_id=draw(st.sampled_from("TU")),
        offset=draw(st.integers(0, 3)),
        subject=draw(st.sampled_from("ab")),
        id=draw(st.sampled_from(IDS)),
        fingerprint=1,
        version=2,
        timestamp=3,
        due=draw(st.sampled_from(TIMES)),
        attempt=draw(st.integers(0, 2)),
        reason="LATER",
        command=b"{}",
        resubmitted_offset=resubmitted_offset,
        resubmitted_topic_id="" if resubmitted_offset is None else draw(st.sampled_from("TU")),
        cancelled=draw(st.booleans()),
    )


def results(view: DeferredView, entries: dict[str, Deferral]) -> dict[str, Any]:
    """Return the results of a view, in which entries that are due at one time have no order."""
    due = {until: sorted(entry.key for entry in view.due_entries(until, 99)) for until in TIMES}
    return {
        "due": due,
        "limited": [entry.due for entry in view.due_entries(10**15, 2)],
        "next": view.next_due(),
        "empty": view.is_empty(),
        "found": {key: view.find_entry(key) for key in entries},
        "resubmitted": sorted(entry.key for entry in view.resubmitted_entries()),
    }


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.tuples(entries(), st.booleans()), max_size=4), max_size=6))
def test_stores_return_equal_deferred_commands(batches: list[list[tuple[Deferral, bool]]]) -> None:
    entries: dict[str, Deferral] = {}
    resubmitted: dict[tuple[str, int | None], str] = {}
    memory = MemoryStore(1000)
    with tempfile.TemporaryDirectory() as folder:
        store = LmdbStore(Path(folder), 1000)
        for batch in batches:
            changes = {entry.key: None if is_removed else entry for entry, is_removed in batch}
            current = {key: entry for key, entry in {**entries, **changes}.items() if entry is not None}
            # an owner has one entry for each command, and one for each offset
            if len({(entry.subject, entry.id) for entry in current.values()}) < len(current):
                continue
            offsets = [
                ((entry.resubmitted_topic_id, entry.resubmitted_offset), key)
                for key, entry in current.items()
                if entry.resubmitted_offset is not None
            ]
            if len(dict(offsets)) < len(offsets) or any(
                resubmitted.get(offset, key) != key for offset, key in offsets
            ):
                continue
            resubmitted |= dict(offsets)  # no offset in a log occurs twice
            entries = current
            for written_store in (store, memory):
                written_store.apply(WriteBatch("", Positions(), Positions(), deferred=changes))
        with store.view() as lmdb_view, memory.view() as memory_view:
            expected = results(DeferralTable(entries.values()), entries)
            for view in (lmdb_view.deferred_view(), memory_view.deferred_view()):
                assert results(view, entries) == expected
                for entry in entries.values():
                    assert view.find_by_command_id(entry.subject, entry.id) == entry
                    if entry.resubmitted_offset is not None:
                        assert (
                            view.find_resubmitted_at(entry.resubmitted_topic_id, entry.resubmitted_offset)
                            == entry
                        )
                assert view.find_by_command_id("c", "x") is None
                assert view.find_resubmitted_at("T", 9) is None
        store.close()


def deferral(**members: Any) -> Deferral:
    default = Deferral("T", 0, "a", "x", 1, 2, 3, 5, 1, "LATER", b"{}")
    return replace(default, **members)


@pytest.mark.parametrize("entry", [deferral(), deferral(resubmitted_offset=7, resubmitted_topic_id="T")])
def test_ended_entry_is_removed_completely(entry: Deferral, tmp_path: Path) -> None:
    with closing(LmdbStore(tmp_path, 1000)) as store:
        store.apply(WriteBatch("", Positions(), Positions(), deferred={entry.key: entry}))
        store.apply(WriteBatch("", Positions(), Positions(), deferred={entry.key: None}))
        with store.view() as view:
            table = view.deferred_view()
            assert (
                table.is_empty()
                and table.find_entry(entry.key) is None
                and table.find_by_command_id("a", "x") is None
            )
            assert (table.find_resubmitted_at("T", 7), table.next_due(), table.resubmitted_entries()) == (
                None,
                None,
                [],
            )


def test_command_resubmitted_at_offset_zero_ends() -> None:
    """The commands topic was recreated, or belongs to a new child partition, so the first record is resubmitted."""
    entry = deferral(resubmitted_offset=0, resubmitted_topic_id="T")
    table = DeferralTable([entry])
    table.apply_changes({entry.key: None})
    assert table.resubmitted_entries() == [] and table.find_resubmitted_at("T", 0) is None


def test_id_goes_to_the_later_command(tmp_path: Path) -> None:
    """The earlier command ends after the later command is deferred."""
    first, second = deferral(), deferral(offset=1)
    with closing(LmdbStore(tmp_path, 1000)) as store:
        for changes in ({first.key: first}, {second.key: second}, {first.key: None}):
            store.apply(WriteBatch("", Positions(), Positions(), deferred=changes))
        with store.view() as view:
            assert view.deferred_view().find_by_command_id("a", "x") == second


def test_open_view_shows_no_later_entry(tmp_path: Path) -> None:
    entry, stores = deferral(), (LmdbStore(tmp_path, 1000), MemoryStore(1000))
    for store in stores:
        with closing(store):
            with store.view() as view_before:
                store.apply(WriteBatch("", Positions(), Positions(), deferred={entry.key: entry}))
                assert view_before.deferred_view().is_empty()
            with store.view() as view_after:
                assert view_after.deferred_view().find_entry(entry.key) == entry


def test_deferred_commands_take_memory() -> None:
    budget, entry = MemoryBudget(), deferral(command=b"x" * 5000)
    with closing(MemoryStore(1000, budget)) as store:
        for changes, holds in (({entry.key: entry}, True), ({}, True), ({entry.key: None}, False)):
            store.apply(WriteBatch("", Positions(), Positions(), deferred=changes))
            assert budget.used == store.size
            assert (store.size > 5000) == holds


def test_due_entries_are_limited(tmp_path: Path) -> None:
    changes = {entry.key: entry for entry in (deferral(offset=n, id=str(n), due=n) for n in range(4))}
    with closing(LmdbStore(tmp_path, 1000)) as store:
        store.apply(WriteBatch("", Positions(), Positions(), deferred=changes))
        with store.view() as view:
            assert [
                [entry.due for entry in view.deferred_view().due_entries(2, limit)] for limit in (1, 2, 9)
            ] == [
                [0],
                [0, 1],
                [0, 1, 2],
            ]


def test_stored_keys_are_stable() -> None:
    """Shards of other releases are read with these keys."""
    digest = "6dab9255bee2389c5dc6016b449e8e3cdbeb64378910e629f151fdaf438fd69a"
    assert deferred_table._id_key("a", "x") == b"i" + bytes.fromhex(digest)
