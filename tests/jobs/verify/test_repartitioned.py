"""Verifying a repartitioned aggregate on a real broker: the owners' work over the splits, and faults in it."""

from dataclasses import replace
from pathlib import Path

import pytest
from msgspec import UNSET

from cqrs_cli.jobs.verify.driver import VerifySummary, checkpoint_scope, plan_verify, verify_in_process
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.scans.verify.checkpoints import new_generation
from tests.deciding.growing import counters, repartition_twice, round_of
from tests.jobs.verify.verification import call, certified, verified
from tests.support.foreign_records import append, edited
from tests.support.harness import TopicHarness
from tests.support.owners import quietly
from tests.support.repartitioning import grow

pytestmark = pytest.mark.kafka


def proved_on(harness: TopicHarness, folder: Path) -> VerifySummary:
    """`verify --incremental`, continued from the work of earlier verifies in the folder."""
    plan = plan_verify(harness.connection, harness.topics, harness.settings)
    with new_generation(folder, checkpoint_scope(plan)) as work:
        return verify_in_process(replace(plan, since=work))


@pytest.fixture
def grown(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """Checkpoints of verify are made before the first repartitioning, before its split, and between both."""
    single = counters(connection, prefix, tmp_path, 1)
    repartition_twice(single, lambda: proved_on(single, tmp_path / "proved"))
    return single


def test_owners_over_two_growths_are_proved(grown: TopicHarness) -> None:
    report = verified(grown, "state")
    assert [(report.skipped, report.behind) for report in report.compared.values()] == [("", None)] * 4
    assert [str(report) for report in report.violations] == []
    assert report.total("aggregates") == 12
    assert all(report.events for report in list(report.reports.values())[1:])
    assert sum(count for report in report.reports.values() for count, _ in report.forwarded_to.values()) > 12


def test_proof_goes_on_over_growths(grown: TopicHarness, tmp_path: Path) -> None:
    """The checkpoints are from before the first repartitioning, and from between both."""
    full, report = verified(grown), proved_on(grown, tmp_path / "proved")
    assert ([str(violation) for violation in report.violations], report.again) == ([], {})
    assert sorted(report.earlier) == [0, 1]
    assert report.reports == full.reports
    assert [str(violation) for violation in proved_on(grown, tmp_path / "proved").violations] == []


def test_lost_command_is_found(grown: TopicHarness) -> None:
    """A copy that a client sends with the attribute is another command, and no violation."""
    came = next(
        violation
        for violation in grown.records("commands", 1)
        if b"forwardedfrom" in (violation.value or b"")
    )
    append(grown, "commands", came, partition=1)
    quietly(grown.plan())
    assert verified(grown).violations == []
    moved = next(
        violation for violation in grown.records("outcomes", 0) if b'"MOVED"' in (violation.value or b"")
    )
    append(grown, "outcomes", edited(moved, {"offset": 999}, id="0/999"))
    assert any("that was forwarded from 0/999" in violation.what for violation in verified(grown).violations)


def test_certificates_hold_over_a_growth(connection: Connection, prefix: str, tmp_path: Path) -> None:
    """One certificate is older than the repartitioning. The other is newer, and contains the lineage topic."""
    pair = counters(connection, prefix, tmp_path)
    pair.send(*round_of(0))
    quietly(pair.plan())
    before = certified(pair).certificate
    grow(pair, 4)
    pair.send(*round_of(1))
    quietly(pair.plan())
    since = certified(pair, before)
    assert (since.changes, since.checked > 0, before.lineage) == ([], True, UNSET)
    append(pair, "commands", *pair.records("commands"))
    quietly(pair.plan())
    later = certified(pair, since.certificate)
    assert (later.changes, later.certificate.lineage) == ([], since.certificate.lineage)


@pytest.mark.spark
@pytest.mark.slow
def test_commands_work_on_a_grown_aggregate(grown: TopicHarness) -> None:
    result = call(grown, "verify", "counter", "--incremental", "kept/")
    assert (result.returncode, result.stderr) == (0, "") and "no violation" in result.stdout
    result = call(grown, "whatif", "counter", "--with", "aggregates.counter")
    assert (result.returncode, result.stderr) == (0, "")
