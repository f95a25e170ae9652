"""Shards that are rebuilt from the log during a run equal the live shards, and replace them together."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.deciding.measures import Measures
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.rebuild.build import build_shard
from cqrs_cli.deciding.rebuild.rebuild import RebuildProgress, RebuiltShard, rebuild_shards
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError
from cqrs_cli.observer import observing
from cqrs_cli.state.lmdb_store import LmdbStore
from tests.support.commands import increment_commands, mixed_commands
from tests.support.eventlog import append_records, counter_event
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_task, running_owners
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def rebuild_and_read(
    harness: TopicHarness, watch: Callable[[RebuildProgress], None] = lambda progress: None
) -> list[RebuiltShard]:
    rebuilt = rebuild_shards(harness.plan(once=False), watch, lambda text: None)
    return [shard for _, shard in sorted(rebuilt.items())]


def folders_next_to(harness: TopicHarness) -> list[str]:
    """Return the quarantined folders next to the shards, without the times in their names."""
    names = [path.name for path in harness.shard_path().parent.iterdir()]
    return sorted(f"{name.split('-')[0]}-{name.rpartition('-')[2]}" for name in names if "." in name)


def inodes(harness: TopicHarness) -> list[int]:
    """Return the inodes of the shards' folders, which identify them."""
    return [harness.shard_path(partition=number).stat().st_ino for number in range(harness.partitions)]


@pytest.mark.covers("rebuild")
def test_rebuilt_shards_equal_live_ones(bank: TopicHarness) -> None:
    commands = list(mixed_commands(400, seed=3))
    bank.send(*commands)
    run_plan(bank.plan())
    live_digest, live_inodes, progress_reports = bank.digest(), inodes(bank), list[RebuildProgress]()
    rebuilt = rebuild_and_read(bank, progress_reports.append)
    assert bank.digest() == live_digest and set(inodes(bank)).isdisjoint(live_inodes)
    assert [shard.shard.aggregates for shard in rebuilt] == [
        len(bank.shard_states(partition=partition)) for partition in (0, 1)
    ]
    assert progress_reports[-1].done == progress_reports[-1].records > 0 and not any(
        shard.in_use for shard in rebuilt
    )
    assert folders_next_to(bank) == ["0.aside-rebuilt", "1.aside-rebuilt"]
    bank.send(*commands[:200])  # their ids are remembered
    (first_result, second_result) = run_plan_task(bank.plan())
    assert (first_result.error, second_result.error, first_result.notes, second_result.notes) == (
        None,
        None,
        (),
        (),
    )
    bank.check()


@pytest.mark.covers("rebuild")
def test_active_owner_keeps_its_old_shard(counters: TopicHarness) -> None:
    """During a rebuild the owner continues with the old shard. The next owner starts with the new shard."""
    counters.send(*increment_commands(10))
    with running_owners(replace(counters.plan(), end_offsets=None)):
        eventually(lambda: counters.position_and_claim()[0] == 10)
        (rebuilt,) = rebuild_and_read(counters)
        assert rebuilt.in_use
        counters.send(*increment_commands(10, first=10))
        eventually(lambda: counters.position_and_claim()[0] == 20)
    inode = counters.shard_path().stat().st_ino
    counters.send(*increment_commands(10, first=20))
    run_plan(counters.plan())
    counters.check()
    assert counters.shard_path().stat().st_ino == inode


def test_machine_without_shards_gets_shards(counters: TopicHarness) -> None:
    counters.send(*increment_commands(10))
    run_plan(counters.plan(machine="other"))
    rebuild_and_read(counters)
    assert counters.digest() == counters.digest("other") and folders_next_to(counters) == []


@pytest.mark.covers("rebuild")
def test_failure_leaves_old_shards(bank: TopicHarness) -> None:
    bank.send(*mixed_commands(50))
    run_plan(bank.plan())
    old_inodes = inodes(bank)
    append_records(bank.connection, bank.topics.events, 1, [counter_event("nobody", 7)])
    with pytest.raises(ContradictionError, match=r"events partition 1 offset \d+"):
        rebuild_and_read(bank)
    assert (inodes(bank), folders_next_to(bank), multiprocessing.active_children()) == (old_inodes, [], [])


@pytest.mark.covers("rebuild")
def test_interruption_leaves_old_shards(bank: TopicHarness) -> None:
    bank.send(*mixed_commands(50))
    run_plan(bank.plan())
    old_inodes = inodes(bank)

    def interrupt(progress: RebuildProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rebuild_and_read(bank, interrupt)
    assert (inodes(bank), folders_next_to(bank), multiprocessing.active_children()) == (old_inodes, [], [])


def test_builders_leave_interrupts_to_parent(counters: TopicHarness) -> None:
    """Ctrl-C goes to all processes of a terminal: a builder must not print a traceback, even during its imports."""

    def interrupt(progress: RebuildProgress) -> None:
        for child in multiprocessing.active_children():
            assert child.pid is not None
            os.kill(child.pid, signal.SIGINT)

    (rebuilt,) = rebuild_and_read(counters, interrupt)
    assert rebuilt.shard.aggregates == 0


def test_killed_builder_is_named(counters: TopicHarness) -> None:
    """The builder dies before it can build."""

    def kill() -> None:
        for child in eventually(multiprocessing.active_children):
            child.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    with pytest.raises(CqrsError, match=r"of counter partition 0 ended with code -9"):
        rebuild_and_read(counters)
    killer.join()


def test_built_shard_has_the_committed_records(counters: TopicHarness, tmp_path: Path) -> None:
    """A built shard has the committed records, the identity of its partition, and no owner."""
    counters.send(*increment_commands(10))
    run_plan(counters.plan())
    plan, measures = counters.plan(), Measures()
    with observing(measures.listener):
        built = build_shard(plan, Partition("counter", 0), counters.aggregate, tmp_path)
    store = LmdbStore(tmp_path, plan.deciding.window)
    assert (store.count(), store.token(), store.positions().commands) == (built.aggregates, "", 10)
    assert plan.identity(Partition("counter", 0), counters.aggregate).differences(store.identity()) == ""
    assert measures.folding is not None and measures.folding.done == measures.folding.records
    store.close()


def test_network_folder_is_refused(counters: TopicHarness, tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text("server:/export / nfs4 rw 0 0\n")
    with pytest.raises(ConfigurationError, match="network"):
        rebuild_shards(counters.plan(once=False), print, print, mounts)
    assert not counters.shard_path().parent.exists()
