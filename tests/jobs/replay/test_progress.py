"""The progress of a replay, from the reports of running tasks and the results of ended tasks."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from aggregates import counter
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.jobs.replay import driver
from cqrs_cli.jobs.replay.driver import plan_replay
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.scans.replay import task
from cqrs_cli.scans.replay.fold import ReplayFold
from cqrs_cli.scans.replay.progress import ReplayProgress
from cqrs_cli.telemetry.task_reports import JobProgress
from tests.jobs.replay.limits import MaxAggregates
from tests.jobs.report_listener import RecordingTaskReports, progress_after
from tests.support import ROOT
from tests.support.eventlog import append_records, counter_event, create_topics
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark import SparkContext

AGGREGATE = Aggregate.of("counter", counter.decider)


#: A reporter that reports after every batch.
EagerProgress = partial(ReplayProgress, interval=0.0)


@pytest.fixture
def task_reports() -> Iterator[RecordingTaskReports]:
    """The reports of three tasks. The first two read the same partition."""
    listener = RecordingTaskReports({0: 100, 1: 100, 2: 50})
    with listener:
        yield listener


def test_progress_grows_within_a_task(task_reports: RecordingTaskReports) -> None:
    with closing(EagerProgress(task_reports.address, 0, 1000)) as progress:
        progress.report_read(10, 1019, 0)
        assert progress_after(task_reports, 2) == (20, 250, 10, 0)
        progress.report_read(20, 1059, 0)
        assert progress_after(task_reports, 3) == (60, 250, 30, 0)


def test_clock_begins_with_the_tasks(task_reports: RecordingTaskReports) -> None:
    """Spark's workers take seconds to start, which would make the estimated remaining time too long."""
    assert task_reports.progress({}).seconds == 0
    assert task_reports.progress({0: 9}).seconds > 0  # a network that drops all reports
    with closing(EagerProgress(task_reports.address, 0, 1000)):
        eventually(lambda: task_reports.progress({}).seconds > 0)


def test_ended_tasks_are_complete(task_reports: RecordingTaskReports) -> None:
    with closing(EagerProgress(task_reports.address, 2, 0)) as progress:
        progress.report_read(30, 39, 0)
        assert progress_after(task_reports, 2, {0: 9}) == (140, 250, 39, 0)
        assert progress_after(task_reports, 2, {2: 7}) == (
            50,
            250,
            30,
            0,
        )  # with a time limit, the total omits some folded events


def test_late_reports_do_not_lower_progress(task_reports: RecordingTaskReports) -> None:
    """Datagrams may overtake each other, and Spark may run a task again."""
    for count in (39, 9):
        with closing(EagerProgress(task_reports.address, 2, 0)) as progress:
            progress.report_read(count, count, 0)
    assert progress_after(task_reports, 6).done == 40


def test_reports_of_other_tasks_are_ignored(task_reports: RecordingTaskReports) -> None:
    with closing(EagerProgress(task_reports.address, 7, 0)) as progress:
        progress.report_read(1, 1, 0)
        progress._sender.send_body(b"?")  # type: ignore[union-attr]
    assert progress_after(task_reports, 4) == (0, 250, 0, 0)


def test_spilled_events_are_not_done(task_reports: RecordingTaskReports) -> None:
    values = [counter_event(f"a{number}", version) for version in range(1, 6) for number in range(10)]
    progress = EagerProgress(task_reports.address, 2, 0)
    with closing(ReplayFold(AGGREGATE, None, MaxAggregates(4), progress=progress)) as fold:
        for start in range(0, 50, 10):
            fold.fold(values[start : start + 10], range(start, 50).__getitem__)
        done_count = progress_after(task_reports, 6).done
        assert 10 <= done_count < 30  # at most 5 of the 10 aggregates fit in memory
        assert fold.total().events == 50
        eventually(lambda: task_reports.progress({}).done == 50)
        assert task_reports.progress({}).records == 50


@pytest.fixture
def log(connection: Connection, prefix: str) -> Topics:
    """Topics with 12,000 events in one partition. A read returns at most 10,000 at once."""
    topics = Topics("counter", prefix)
    create_topics(connection, topics, partitions=1)
    append_records(
        connection, topics.events, 0, [counter_event("a", version) for version in range(1, 12_001)]
    )
    return topics


@pytest.mark.kafka
def test_task_reports_while_it_reads(connection: Connection, log: Topics) -> None:
    plan = plan_replay(connection, log, "aggregates", ROOT)
    task_reports = RecordingTaskReports({0: 12_000})
    with task_reports:
        assert (
            task.replay_part(
                replace(plan, report_address=task_reports.address, report_interval=0.0), 0
            ).total.events
            == 12_000
        )
        eventually(lambda: task_reports.progress({})[:3] == (12_000, 12_000, 12_000))
        eventually(lambda: len(task_reports.bodies) > 3)  # the first and the last report are sent at the ends


@pytest.mark.kafka
@pytest.mark.spark
def test_workers_report_to_the_driver(spark: "SparkContext", connection: Connection, log: Topics) -> None:
    listeners: list[RecordingTaskReports] = []

    def listen(_host: str, spans: Mapping[int, int | None]) -> RecordingTaskReports:
        listeners.append(RecordingTaskReports(spans))
        return listeners[0]

    def watch(_: JobProgress) -> None:
        """Delay the driver until the reports show all records, before the results."""
        eventually(lambda: listeners[0].progress({})[:3] == (12_000, 12_000, 12_000))

    plan = plan_replay(connection, log, "aggregates", ROOT)
    assert driver.replay_events(spark, plan, show=watch, make_listener=listen).total.events == 12_000
