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
from tests.jobs.replay.limits import Most
from tests.jobs.report_listener import Heard, told
from tests.support import ROOT
from tests.support.eventlog import append, counted, create
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark import SparkContext

AGGREGATE = Aggregate.of("counter", counter.decider)


#: A reporter that reports after every batch.
Talkative = partial(ReplayProgress, every=0.0)


@pytest.fixture
def words() -> Iterator[Heard]:
    """The reports of three tasks. The first two read the same partition."""
    listener = Heard({0: 100, 1: 100, 2: 50})
    with listener:
        yield listener


def test_share_moves_within_a_task(words: Heard) -> None:
    with closing(Talkative(words.address, 0, 1000)) as progress:
        progress.report_read(10, 1019, 0)
        assert told(words, 2) == (20, 250, 10, 0)
        progress.report_read(20, 1059, 0)
        assert told(words, 3) == (60, 250, 30, 0)


def test_clock_begins_with_the_tasks(words: Heard) -> None:
    """Spark's workers take seconds to start, which would make the estimated remaining time too long."""
    assert words.progress({}).seconds == 0
    assert words.progress({0: 9}).seconds > 0  # a network that drops all reports
    with closing(Talkative(words.address, 0, 1000)):
        eventually(lambda: words.progress({}).seconds > 0)


def test_ended_tasks_have_done_all(words: Heard) -> None:
    with closing(Talkative(words.address, 2, 0)) as progress:
        progress.report_read(30, 39, 0)
        assert told(words, 2, {0: 9}) == (140, 250, 39, 0)
        assert told(words, 2, {2: 7}) == (
            50,
            250,
            30,
            0,
        )  # up to a time: some folded events are not in the total


def test_late_words_take_nothing_back(words: Heard) -> None:
    """Datagrams may overtake each other, and Spark may run a task again."""
    for count in (39, 9):
        with closing(Talkative(words.address, 2, 0)) as progress:
            progress.report_read(count, count, 0)
    assert told(words, 6).done == 40


def test_foreign_words_are_ignored(words: Heard) -> None:
    with closing(Talkative(words.address, 7, 0)) as progress:
        progress.report_read(1, 1, 0)
        progress._sender.send_body(b"?")  # type: ignore[union-attr]
    assert told(words, 4) == (0, 250, 0, 0)


def test_events_on_disk_are_to_come(words: Heard) -> None:
    values = [counted(f"a{number}", version) for version in range(1, 6) for number in range(10)]
    progress = Talkative(words.address, 2, 0)
    with closing(ReplayFold(AGGREGATE, None, Most(4), progress=progress)) as fold:
        for at in range(0, 50, 10):
            fold.fold(values[at : at + 10], range(at, 50).__getitem__)
        done_count = told(words, 6).done
        assert 10 <= done_count < 30  # at most 5 of the 10 aggregates fit in memory
        assert fold.total().events == 50
        eventually(lambda: words.progress({}).done == 50)
        assert words.progress({}).records == 50


@pytest.fixture
def log(connection: Connection, prefix: str) -> Topics:
    """12,000 events in one partition. A batch of a read has at most 10,000."""
    topics = Topics("counter", prefix)
    create(connection, topics, partitions=1)
    append(connection, topics.events, 0, [counted("a", version) for version in range(1, 12_001)])
    return topics


@pytest.mark.kafka
def test_task_tells_while_it_reads(connection: Connection, log: Topics) -> None:
    plan = plan_replay(connection, log, "aggregates", ROOT)
    words = Heard({0: 12_000})
    with words:
        assert task.total_part(replace(plan, words=words.address, tell_every=0.0), 0).total.events == 12_000
        eventually(lambda: words.progress({})[:3] == (12_000, 12_000, 12_000))
        eventually(lambda: len(words.all) > 3)  # the first and the last report are sent at the ends


@pytest.mark.kafka
@pytest.mark.spark
def test_workers_tell_the_driver(spark: "SparkContext", connection: Connection, log: Topics) -> None:
    listening: list[Heard] = []

    def listen(_host: str, spans: Mapping[int, int | None]) -> Heard:
        listening.append(Heard(spans))
        return listening[0]

    def watch(_: JobProgress) -> None:
        """Delay the driver until the reports show all records, before the results."""
        eventually(lambda: listening[0].progress({})[:3] == (12_000, 12_000, 12_000))

    plan = plan_replay(connection, log, "aggregates", ROOT)
    assert driver.replay_events(spark, plan, show=watch, listen=listen).total.events == 12_000
