"""Verifying a repartitioned aggregate on a real broker: the owners' records after splits, and faults in them."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import UNSET

from cqrs_cli.jobs.verify.driver import VerifySummary, checkpoint_scope, verify_in_process
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.scans.verify.checkpoints import new_checkpoint
from cqrs_cli.scans.verify.plan import plan_verify
from tests.deciding.repartitioned_counters import counters, repartition_twice, round_commands
from tests.jobs.verify.verification import certify, run_cqrs, verify
from tests.support.foreign_records import append_records, changed_record
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.repartitioning import repartition_topics

pytestmark = pytest.mark.kafka


def verify_incrementally(harness: TopicHarness, folder: Path) -> VerifySummary:
    """Run `verify --incremental`, which continues from the checkpoints in the folder."""
    plan = plan_verify(harness.connection, harness.topics, harness.settings)
    with new_checkpoint(folder, checkpoint_scope(plan)) as checkpoints:
        return verify_in_process(replace(plan, checkpoints=checkpoints))


@pytest.fixture
def repartitioned(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """An aggregate that was repartitioned twice. Verify made checkpoints before the first repartitioning, before its
    split, and between the two repartitionings.
    """
    harness = counters(connection, prefix, tmp_path, 1)
    repartition_twice(harness, lambda: verify_incrementally(harness, tmp_path / "proved"))
    return harness


def test_two_repartitionings_are_verified(repartitioned: TopicHarness) -> None:
    report = verify(repartitioned, "state")
    assert [(shard.skip_reason, shard.behind) for shard in report.comparisons.values()] == [("", None)] * 4
    assert [str(violation) for violation in report.violations] == []
    assert report.total("aggregates") == 12
    assert all(partition.events for partition in list(report.reports.values())[1:])
    assert (
        sum(count for partition in report.reports.values() for count, _ in partition.forwarded_to.values())
        > 12
    )


def test_checkpoints_survive_repartitionings(repartitioned: TopicHarness, tmp_path: Path) -> None:
    """One checkpoint is older than the first repartitioning, the other is older than the second."""
    full_report, report = verify(repartitioned), verify_incrementally(repartitioned, tmp_path / "proved")
    assert ([str(violation) for violation in report.violations], report.restart_reasons) == ([], {})
    assert sorted(report.earlier_reports) == [0, 1]
    assert report.reports == full_report.reports
    assert [
        str(violation) for violation in verify_incrementally(repartitioned, tmp_path / "proved").violations
    ] == []


def test_lost_command_is_found(repartitioned: TopicHarness) -> None:
    """A client may send a copy of a forwarded command: the copy is another command, and no violation."""
    forwarded = next(
        record for record in repartitioned.records("commands", 1) if b"forwardedfrom" in (record.value or b"")
    )
    append_records(repartitioned, "commands", forwarded, partition=1)
    run_plan(repartitioned.plan())
    assert verify(repartitioned).violations == []
    moved_outcome = next(
        record for record in repartitioned.records("outcomes", 0) if b'"MOVED"' in (record.value or b"")
    )
    append_records(repartitioned, "outcomes", changed_record(moved_outcome, {"offset": 999}, id="0/999"))
    assert any(
        "that was forwarded from 0/999" in violation.what for violation in verify(repartitioned).violations
    )


def test_certificates_hold_after_repartitioning(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """One certificate is older than the repartitioning. The other is newer, and contains the lineage topic."""
    harness = counters(connection, prefix, tmp_path)
    harness.send(*round_commands(0))
    run_plan(harness.plan())
    old_certificate = certify(harness).certificate
    repartition_topics(harness, 4)
    harness.send(*round_commands(1))
    run_plan(harness.plan())
    second = certify(harness, old_certificate)
    assert (second.changes, second.checked_count > 0, old_certificate.lineage) == ([], True, UNSET)
    append_records(harness, "commands", *harness.records("commands"))
    run_plan(harness.plan())
    third = certify(harness, second.certificate)
    assert (third.changes, third.certificate.lineage) == ([], second.certificate.lineage)


@pytest.mark.spark
@pytest.mark.slow
def test_commands_work_after_repartitioning(repartitioned: TopicHarness) -> None:
    result = run_cqrs(repartitioned, "verify", "counter", "--incremental", "kept/")
    assert (result.returncode, result.stderr) == (0, "") and "no violation" in result.stdout
    result = run_cqrs(repartitioned, "whatif", "counter", "--with", "aggregates.counter")
    assert (result.returncode, result.stderr) == (0, "")
