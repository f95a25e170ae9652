"""A backup replaced the log, which then grew again: data that was folded from the lost log is not used."""

import os
import shutil
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.jobs.verify.driver import checkpoint_scope, verify_in_process
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.scans.verify.checkpoints import new_checkpoint
from cqrs_cli.scans.verify.plan import plan_verify
from cqrs_cli.state.lmdb_store import LmdbStore
from cqrs_cli.state.shutdown_marker import write_marker
from tests.following.gateway.conftest import running_gateway
from tests.support.commands import mixed_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_task

pytestmark = pytest.mark.kafka


@pytest.fixture
def lost_bank(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """The topics that `bank` replaces, with other decided commands."""
    harness = TopicHarness(connection, f"{prefix}lost.", tmp_path, "bank_account", partitions=2)
    harness.send(*mixed_commands(300, seed=2))
    run_plan(harness.plan())
    return harness


def take_identity(shard: Path, source: Path, target: Path) -> None:
    """Move a shard to `target`, with the identity of the shard in `source`, as if both had the same topics."""
    with closing(LmdbStore(source, 1, readonly=True)) as store:
        identity = store.identity()
    with closing(LmdbStore(shard, 1)) as store:
        store.set_identity(identity)
    folder = os.open(shard, os.O_RDONLY)
    write_marker(folder, "clean")
    os.close(folder)
    shutil.rmtree(target, ignore_errors=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    shard.rename(target)


@pytest.mark.covers("state-is-events")
def test_shard_of_lost_history_is_rebuilt(bank: TopicHarness, lost_bank: TopicHarness) -> None:
    commands = list(mixed_commands(600))
    bank.send(*commands[:500])
    run_plan(bank.plan(machine="B"))
    for number in range(2):
        source, target = bank.shard_path("B", number), bank.shard_path("A", number)
        take_identity(lost_bank.shard_path(partition=number), source, target)
    bank.send(*commands[500:])
    notes = [note for result in run_plan_task(bank.plan(machine="A")) for note in result.notes]
    assert sum("folded from records that the log has lost" in note for note in notes) == 2, notes
    bank.check("A")


def test_gateway_of_lost_history_folds_again(
    bank: TopicHarness, lost_bank: TopicHarness, connection: Connection, tmp_path: Path
) -> None:
    bank.send(*list(mixed_commands(600)))
    run_plan(bank.plan())
    for harness in (bank, lost_bank):
        with running_gateway(connection, harness.topics, tmp_path, read_only=True):
            pass
    old, new = (tmp_path / "gateway" / f"{log.topics.prefix}bank_account" / "0" for log in (lost_bank, bank))
    take_identity(old, new, new)
    with running_gateway(connection, bank.topics, tmp_path, read_only=True) as gateway:
        for name, state in bank.shard_states().items():
            assert gateway.get(f"/bank_account/{name}").body["version"] == state.version


@pytest.mark.covers("verifiable")
def test_incremental_verify_of_lost_history_restarts(
    bank: TopicHarness, lost_bank: TopicHarness, tmp_path: Path
) -> None:
    """The folder of a verify that has read the lost log is not continued, although the topics have the same ids."""
    bank.send(*list(mixed_commands(600)))
    run_plan(bank.plan())
    plans = {log: plan_verify(log.connection, log.topics, log.settings) for log in (lost_bank, bank)}
    for log, plan in plans.items():
        with new_checkpoint(tmp_path / "verified", checkpoint_scope(plans[bank])) as checkpoints:
            summary = verify_in_process(replace(plan, checkpoints=checkpoints))
        assert summary.violations == []
        assert sorted(summary.restart_reasons) == ([] if log is lost_bank else [0, 1])
    assert "the log has lost records that an earlier verify has read" in summary.restart_reasons[0]
