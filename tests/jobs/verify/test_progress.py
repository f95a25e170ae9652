"""The progress of a verification, from the reports of its tasks."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest

from cqrs_cli.cli.render.verify import verifying_text
from cqrs_cli.deciding.plan import shard_folder
from cqrs_cli.jobs.export.driver import exported_rows, plan_export
from cqrs_cli.jobs.verify import driver
from cqrs_cli.jobs.verify.certify import certify_partition, plan_certify
from cqrs_cli.jobs.verify.driver import plan_verify
from cqrs_cli.jobs.whatif import decide_partition_again, plan_whatif
from cqrs_cli.scans.log_progress import LogProgress
from cqrs_cli.scans.verify.plan import ProofPlan
from cqrs_cli.scans.verify.task import OWNER_LOGS, prove_partition
from cqrs_cli.telemetry.datagrams import Address
from cqrs_cli.telemetry.task_reports import JobProgress
from tests.jobs.report_listener import Heard, told
from tests.support.harness import TopicHarness
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from pyspark import SparkContext


#: A reporter that reports after every batch.
Talkative = partial(LogProgress, interval=0.0)


@pytest.fixture
def words() -> Iterator[Heard]:
    """The reports of three tasks, whose offsets are unknown before they start."""
    listener = Heard(dict.fromkeys(range(3)))
    with listener:
        yield listener


def test_share_moves_within_a_partition(words: Heard) -> None:
    """A partition that has not started is estimated from the others."""
    assert told(words, 0) == (0, 3, 0, 0)
    teller = Talkative(words.address, 0)
    teller.start(100)
    teller.report_read(10, 20)
    assert told(words, 2) == (20, 300, 10, 0)
    teller.report_read(0, 10)  # offsets without records
    teller.report_read(5, 6)
    assert told(words, 4) == (36, 300, 15, 0)
    teller.close()


def test_ended_partitions_have_done_all(words: Heard) -> None:
    """The results of ended partitions count even if the network drops the reports."""
    assert told(words, 0, {0: 50}) == (1, 3, 50, 0)
    teller = Talkative(words.address, 1)
    teller.start(100)
    teller.report_read(7, 90)  # undecided commands are not read
    teller.close()
    assert told(words, 3, {1: 7}) == (100, 300, 7, 0)
    assert told(words, 3, {0: 50, 1: 7}) == (200, 300, 57, 0)


def test_proof_from_the_beginning_moves_on(words: Heard) -> None:
    """The checkpoint in the folder could not be used, so more records must be read."""
    teller = Talkative(words.address, 0)
    teller.start(10)
    teller.report_read(8, 8)
    teller.start(1000)
    teller.report_read(2, 2)
    assert told(words, 3).done == 8
    teller.report_read(98, 98)
    assert told(words, 4) == (100, 3000, 100, 0)
    teller.close()


def test_line_has_rate_and_rest() -> None:
    now = JobProgress(1000, 4000, 900, 3.0)
    assert (
        verifying_text("counter", now, bar=False) == "verifying counter 25%, 300 records a second, 9 s left"
    )
    assert "━━━━━━──────" in verifying_text("counter", now)


def planned(decided: TopicHarness, state: bool = False) -> ProofPlan:
    shards = shard_folder(decided.folder / "state", decided.topics) if state else None
    return plan_verify(decided.connection, decided.topics, decided.settings, shards)


def certify(decided: TopicHarness, words: Address) -> None:
    plan = plan_certify(decided.connection, decided.topics)
    assert certify_partition(replace(plan, words=words), 0).error is None


def export(decided: TopicHarness, words: Address) -> None:
    settings = decided.settings
    plan = plan_export(decided.connection, decided.topics, settings.aggregates, settings.root)
    assert list(exported_rows(replace(plan, report_address=words), 0, "jsonl"))


def decide_again(decided: TopicHarness, words: Address) -> None:
    plan = plan_whatif(decided.connection, decided.topics, decided.settings, "aggregates.bank_account")
    assert decide_partition_again(replace(plan, words=words), 0).commands


@pytest.mark.kafka
@pytest.mark.parametrize("state", [False, True])
def test_task_tells_of_each_log(decided: TopicHarness, state: bool) -> None:
    """In the end the task has read as many offsets as it announced. Comparing states reads the events twice."""
    with Heard({0: None}) as words:
        result = prove_partition(replace(planned(decided, state), words=words.address, tell_every=0.0), 0)
        assert result.error is None and result.report.violations == ()
        report = result.report
        record_count = report.commands + report.outcomes + report.events + report.dead_letters
        assert result.records == record_count + (report.events if state else 0)
        eventually(lambda: is_whole(words.progress({})))
        assert words.progress({}).records == result.records
        assert len(words.all) > len(OWNER_LOGS)


def is_whole(now: JobProgress) -> bool:
    """True if the reports show the end. A task without a report counts as one offset."""
    return now.done == now.offsets > 3


@pytest.mark.kafka
@pytest.mark.parametrize("reader", [certify, export, decide_again])
def test_other_readers_tell_the_same(
    decided: TopicHarness, reader: Callable[[TopicHarness, Address], None]
) -> None:
    with Heard({0: None}) as words:
        reader(decided, words.address)
        eventually(lambda: is_whole(words.progress({})))
        assert words.progress({}).records > 0


@pytest.mark.kafka
@pytest.mark.spark
def test_workers_tell_of_their_proofs(spark: "SparkContext", decided: TopicHarness) -> None:
    listening: list[Heard] = []

    def listen(_host: str, spans: Mapping[int, int | None]) -> Heard:
        listening.append(Heard(spans))
        return listening[0]

    snapshots: list[JobProgress] = []

    def watch(_: JobProgress) -> None:
        """Delay the driver until the reports show all records, before the results."""
        eventually(lambda: is_whole(listening[0].progress({})))
        snapshots.append(listening[0].progress({}))

    report = driver.verify_topics(spark, planned(decided), watch, listen)
    assert snapshots[-1].records == sum(
        report.total(name) for name in ("commands", "outcomes", "events", "dead_letters")
    )
