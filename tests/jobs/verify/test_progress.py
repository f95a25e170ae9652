"""The progress of a verification, from the reports of its tasks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from cqrs_cli.cli.render.verify import verifying_text
from cqrs_cli.deciding.plan import shards_folder_of
from cqrs_cli.jobs.export.driver import exported_rows, plan_export
from cqrs_cli.jobs.verify import driver
from cqrs_cli.jobs.verify.certify import certify_partition, plan_certify
from cqrs_cli.jobs.whatif import decide_partition_again
from cqrs_cli.scans.log_progress import LogProgress
from cqrs_cli.scans.verify.plan import VerificationPlan, plan_verify
from cqrs_cli.scans.verify.task import OWNER_LOGS, verify_partition
from cqrs_cli.scans.whatif.plan import plan_whatif
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import JobProgress
from tests.jobs.report_listener import RecordingTaskReports, progress_after
from tests.support.harness import TopicHarness
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark import SparkContext


#: A reporter that reports after every batch.
EagerProgress = partial(LogProgress, interval=0.0)


@pytest.fixture
def task_reports() -> Iterator[RecordingTaskReports]:
    """The reports of three tasks, whose offsets are unknown before they start."""
    listener = RecordingTaskReports(dict.fromkeys(range(3)))
    with listener:
        yield listener


def test_progress_grows_within_a_partition(task_reports: RecordingTaskReports) -> None:
    """A partition that has not started is estimated from the others."""
    assert progress_after(task_reports, 0) == (0, 3, 0, 0)
    progress = EagerProgress(task_reports.address, 0)
    progress.start(100)
    progress.report_read(10, 20)
    assert progress_after(task_reports, 2) == (20, 300, 10, 0)
    progress.report_read(0, 10)  # offsets without records
    progress.report_read(5, 6)
    assert progress_after(task_reports, 4) == (36, 300, 15, 0)
    progress.close()


def test_ended_partitions_are_complete(task_reports: RecordingTaskReports) -> None:
    """The results of ended partitions count even if the network drops the reports."""
    assert progress_after(task_reports, 0, {0: 50}) == (1, 3, 50, 0)
    progress = EagerProgress(task_reports.address, 1)
    progress.start(100)
    progress.report_read(7, 90)  # undecided commands are not read
    progress.close()
    assert progress_after(task_reports, 3, {1: 7}) == (100, 300, 7, 0)
    assert progress_after(task_reports, 3, {0: 50, 1: 7}) == (200, 300, 57, 0)


def test_restarted_verification_keeps_its_progress(task_reports: RecordingTaskReports) -> None:
    """The checkpoint in the folder could not be used, so more records must be read."""
    progress = EagerProgress(task_reports.address, 0)
    progress.start(10)
    progress.report_read(8, 8)
    progress.start(1000)
    progress.report_read(2, 2)
    assert progress_after(task_reports, 3).done == 8
    progress.report_read(98, 98)
    assert progress_after(task_reports, 4) == (100, 3000, 100, 0)
    progress.close()


def test_line_has_rate_and_remaining_time() -> None:
    progress = JobProgress(1000, 4000, 900, 3.0)
    assert (
        verifying_text("counter", progress, with_bar=False)
        == "verifying counter 25%, 300 records a second, 9 s left"
    )
    assert "━━━━━━──────" in verifying_text("counter", progress)


def verification_plan(decided_bank: TopicHarness, state: bool = False) -> VerificationPlan:
    shards = shards_folder_of(decided_bank.folder / "state", decided_bank.topics) if state else None
    return plan_verify(decided_bank.connection, decided_bank.topics, decided_bank.settings, shards)


def certify(decided_bank: TopicHarness, report_address: Address) -> None:
    plan = plan_certify(decided_bank.connection, decided_bank.topics)
    assert certify_partition(replace(plan, report_address=report_address), 0).error is None


def export(decided_bank: TopicHarness, report_address: Address) -> None:
    settings = decided_bank.settings
    plan = plan_export(decided_bank.connection, decided_bank.topics, settings.aggregates, settings.root)
    assert list(exported_rows(replace(plan, report_address=report_address), 0, "jsonl"))


def run_whatif(decided_bank: TopicHarness, report_address: Address) -> None:
    plan = plan_whatif(
        decided_bank.connection, decided_bank.topics, decided_bank.settings, "aggregates.bank_account"
    )
    assert decide_partition_again(replace(plan, report_address=report_address), 0).commands


@pytest.mark.kafka
@pytest.mark.parametrize("state", [False, True])
def test_task_reports_each_log(decided_bank: TopicHarness, state: bool) -> None:
    """In the end the task has read as many offsets as it announced. Comparing states reads the events twice."""
    with RecordingTaskReports({0: None}) as task_reports:
        result = verify_partition(
            replace(
                verification_plan(decided_bank, state),
                report_address=task_reports.address,
                report_interval=0.0,
            ),
            0,
        )
        assert result.error is None and result.report.violations == ()
        report = result.report
        record_count = report.commands + report.outcomes + report.events + report.dead_letters
        assert result.records == record_count + (report.events if state else 0)
        eventually(lambda: is_complete(task_reports.progress({})))
        assert task_reports.progress({}).records == result.records
        assert len(task_reports.bodies) > len(OWNER_LOGS)


def is_complete(progress: JobProgress) -> bool:
    """True if the reports show the end. A task without a report counts as one offset."""
    return progress.done == progress.offsets > 3


@pytest.mark.kafka
@pytest.mark.parametrize("reader", [certify, export, run_whatif])
def test_other_readers_report_until_complete(
    decided_bank: TopicHarness, reader: Callable[[TopicHarness, Address], None]
) -> None:
    with RecordingTaskReports({0: None}) as task_reports:
        reader(decided_bank, task_reports.address)
        eventually(lambda: is_complete(task_reports.progress({})))
        assert task_reports.progress({}).records > 0


@pytest.mark.kafka
@pytest.mark.spark
def test_workers_report_to_the_driver(spark: "SparkContext", decided_bank: TopicHarness) -> None:
    listeners: list[RecordingTaskReports] = []

    def listen(_host: str, spans: Mapping[int, int | None]) -> RecordingTaskReports:
        listeners.append(RecordingTaskReports(spans))
        return listeners[0]

    snapshots: list[JobProgress] = []

    def watch(_: JobProgress) -> None:
        """Delay the driver until the reports show all records, before the results."""
        eventually(lambda: is_complete(listeners[0].progress({})))
        snapshots.append(listeners[0].progress({}))

    report = driver.verify_topics(spark, verification_plan(decided_bank), watch, listen)
    assert snapshots[-1].records == sum(
        report.total(name) for name in ("commands", "outcomes", "events", "dead_letters")
    )
