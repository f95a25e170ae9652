"""The driver submits lost tasks again, notices missing owners, and ends with the most serious result."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from cqrs_cli.deciding.measures import FoldProgress
from cqrs_cli.deciding.plan import OwnerResult, Partition, Plan
from cqrs_cli.deciding.report import OwnerReport, encode_report
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.errors import CqrsError, UnavailableError
from cqrs_cli.jobs.engine.session import LOG_PROPERTY
from cqrs_cli.jobs.engine.task_group import MAX_FUTILE_LOSSES
from cqrs_cli.ownership.claim import TERMINAL
from cqrs_cli.runs.plan_watch import PlanChangedError
from cqrs_cli.runs.progress import BrokerAnswer, Progress
from cqrs_cli.runs.snapshot import Rebuild, Snapshot
from cqrs_cli.telemetry.datagrams import DatagramSender, send_message
from tests.support.commands import CommandRecord, increment_commands
from tests.support.driver import FakeSparkContext, owner_task, run_driver
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan_task, running_owners
from tests.support.repartitioning import repartition_topics
from tests.support.transactional_topic import begin_transaction
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def lose_task(_: Plan) -> Iterable[OwnerResult]:
    raise RuntimeError("the worker is gone\nand its log says why")


def lose_task_after_work(plan: Plan) -> Iterable[OwnerResult]:
    run_plan_task(plan)
    raise RuntimeError("the worker is gone")


def test_result_counts_decided_commands(counters: TopicHarness) -> None:
    counters.send(*increment_commands(7))
    result = run_driver(FakeSparkContext(owner_task), counters.plan())
    assert result.summary()["aggregates"]["counter"]["accepted"] == result.total("commands") == 7
    assert result.lag == 0


def test_finished_run_has_terminal_claim(counters: TopicHarness) -> None:
    counters.send(*increment_commands(3))
    run_driver(FakeSparkContext(owner_task), counters.plan())
    _, claim = counters.position_and_claim()
    assert claim and claim.attempt == TERMINAL and claim.counts.commands == 3


@pytest.mark.usefixtures("no_young_transactions")
def test_transaction_that_hides_commands_is_named(counters: TopicHarness) -> None:
    """The note names the transaction once, however long the transaction stays open."""
    counters.send(*increment_commands(3))
    client = begin_transaction(counters.connection, counters.topics.commands, [b"?"])
    notes: list[str] = []
    with ThreadPoolExecutor(1) as executor:
        run = executor.submit(
            run_driver, FakeSparkContext(owner_task), counters.plan(), notes, hidden_check_interval=0.0
        )
        eventually(lambda: notes)
        client.abort_transaction(10)
        assert run.result(60).total("commands") == 3
    (note,) = notes
    assert (
        f"the records from offset 3 on are invisible: open transaction {counters.topics.commands}.writer"
        in note
    )
    assert "end the program that opened it, or kafka-transactions.sh" in note


@pytest.mark.covers("one-outcome")
def test_once_waits_for_hidden_commands(counters: TopicHarness) -> None:
    """Acknowledged commands are invisible while an earlier transaction of a client is open."""
    client = begin_transaction(counters.connection, counters.topics.commands, [b"?"])
    counters.send(*increment_commands(2))
    with ThreadPoolExecutor(1) as executor:
        run = executor.submit(run_driver, FakeSparkContext(owner_task), counters.plan())
        eventually(counters.owning_run)
        client.abort_transaction(10)
        assert run.result(60).total("commands") == 2


def test_lost_task_is_submitted_again(counters: TopicHarness) -> None:
    counters.send(*increment_commands(7))
    notes: list[str] = []
    context = FakeSparkContext(lose_task, lose_task_after_work, owner_task)
    result = run_driver(context, counters.plan(), notes)
    assert [plan.submission for plan in context.plans] == [0, 1, 2]
    assert result.resubmissions == 2
    assert "a task was lost (the worker is gone); resubmitting in" in notes[0]
    assert result.total("commands") == 7  # also the commands of the lost submission
    counters.check()


def test_repeatedly_lost_task_ends_run(counters: TopicHarness) -> None:
    context = FakeSparkContext(lose_task)
    with pytest.raises(CqrsError, match=r"lost 5 times in a row \(the worker is gone\)"):
        run_driver(context, counters.plan())
    assert len(context.plans) == MAX_FUTILE_LOSSES


def test_unowned_partitions_end_the_run(counters: TopicHarness) -> None:
    is_released = threading.Event()

    def wait(_: Plan) -> list[OwnerResult]:
        is_released.wait(30)
        return []

    with pytest.raises(UnavailableError, match="no owner of counter:0") as raised:
        run_driver(FakeSparkContext(wait), counters.plan(), claim_deadline=0.2)
    assert raised.value.exit_code == 4
    is_released.set()


def test_resubmitted_task_gets_a_new_deadline(counters: TopicHarness) -> None:
    """A task that is lost after the first deadline gets the same time to claim as the first task."""
    is_released = threading.Event()

    def lose_task(plan: Plan) -> list[OwnerResult]:
        list(owner_task(plan))
        is_released.wait(1.5)
        raise RuntimeError("lost")

    def claim_late(plan: Plan) -> Iterable[OwnerResult]:
        is_released.wait(0.5)
        return owner_task(plan)

    assert run_driver(FakeSparkContext(lose_task, claim_late), counters.plan(), claim_deadline=1.0)


def before_each_poll(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Call `act` each time before the driver polls the broker."""
    poll = Progress.poll_broker

    def poll_after_act(progress: Progress) -> BrokerAnswer:
        act()
        return poll(progress)

    monkeypatch.setattr(Progress, "poll_broker", poll_after_act)


def test_absent_broker_extends_claim_deadline(
    counters: TopicHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures, has_recovered = iter(range(25)), threading.Event()

    def fail_25_times() -> None:
        if next(failures, None) is not None:
            raise UnavailableError("no broker")
        has_recovered.set()

    before_each_poll(monkeypatch, fail_25_times)

    def wait(_: Plan) -> list[OwnerResult]:
        assert has_recovered.wait(60)
        return []

    notes: list[str] = []
    run_driver(FakeSparkContext(wait), counters.plan(), notes, claim_deadline=1.0)
    assert notes == ["no broker"] * 25


def test_lost_task_restarts_without_broker(counters: TopicHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker does not respond to the driver until the task has restarted and decided."""
    counters.send(*increment_commands(7))
    has_decided = threading.Event()

    def wait() -> None:
        assert has_decided.wait(20)

    before_each_poll(monkeypatch, wait)

    def decide_late(plan: Plan) -> list[OwnerResult]:
        results = run_plan_task(plan)
        has_decided.set()
        return results

    result = run_driver(
        FakeSparkContext(lose_task, lose_task, decide_late), counters.plan(), progress_poll_timeout=0.0
    )
    assert (result.resubmissions, result.total("commands")) == (2, 7)
    counters.check()


def test_rebuild_extends_claim_deadline(counters: TopicHarness) -> None:
    """An owner folds a long log before it claims. Its partition does not count as unowned while it reports progress."""
    snapshots: list[Snapshot] = []

    def report_folding(plan: Plan) -> list[OwnerResult]:
        assert plan.reports is not None
        sender, number = DatagramSender(plan.reports), 0
        while len(snapshots) < 20:
            number += 1
            sender.send_body(
                encode_report(OwnerReport("counter", 0, 0, 0, number, "warm", FoldProgress(10, 5, 20)))
            )
            time.sleep(0.01)
        sender.close()
        return run_plan_task(plan)

    run_driver(FakeSparkContext(report_folding), counters.plan(), watch=snapshots.append, claim_deadline=0.1)
    assert Rebuild(1, 10, 25) in [snapshot.rebuild_progress() for snapshot in snapshots]


def test_notes_arrive_while_owners_work(counters: TopicHarness) -> None:
    notes: list[str] = []

    def report_note_and_work(plan: Plan) -> list[OwnerResult]:
        assert plan.reports is not None
        send_message(plan.reports, "the code changed")
        eventually(lambda: notes)
        first, *_ = run_plan_task(replace(plan, reports=None))
        return [replace(first, notes=("the code changed", "another"))]

    run_driver(FakeSparkContext(report_note_and_work), counters.plan(), notes)
    assert notes == ["the code changed", "another"]


def test_message_about_an_exception_names_the_log(counters: TopicHarness) -> None:
    def raise_error(_: Any, __: Any) -> Any:
        raise ValueError("broken")

    def fail_commands(plan: Plan) -> Iterable[OwnerResult]:
        failing = replace(counters.aggregate, decider=replace(counters.aggregate.decider, decide=raise_error))
        plan = replace(plan, reports=None)
        supervisor = DecidingSupervisor(plan, Partition("counter", 0), failing, 0, threading.Event())
        supervisor.run()
        return [supervisor.result]

    counters.send(*increment_commands(2))
    notes: list[str] = []
    context = FakeSparkContext(fail_commands)
    context.properties |= {"spark.master": "local[2]", LOG_PROPERTY: "/shop/run.log"}
    run_driver(context, counters.plan(), notes)
    assert [note.partition("; ")[2] for note in notes] == ["the traceback is in /shop/run.log"]


def test_standby_tasks_end_by_themselves(counters: TopicHarness) -> None:
    """Spark would kill the worker of a cancelled task only after up to two seconds."""
    context, plan = FakeSparkContext(owner_task), counters.plan(once=False, machine="second")
    with running_owners(counters.plan(once=False)), ThreadPoolExecutor(1) as executor:
        eventually(counters.owning_run)
        run = executor.submit(run_driver, context, plan, standby_timeout=30.0)
        eventually(lambda: context.running)
        repartition_topics(counters, 2)
        assert isinstance(run.exception(60), PlanChangedError)
    assert (context.running, context.cancelled.is_set()) == ([], False)


def test_owners_report_their_measurements(counters: TopicHarness) -> None:
    counters.send(*increment_commands(7), CommandRecord(b"k", b"?"))
    snapshots: list[Snapshot] = []
    result = run_driver(FakeSparkContext(owner_task), counters.plan(), watch=snapshots.append)
    report = result.reports[Partition("counter", 0)]
    assert report.step == "ended" and report.shard_bytes > 0
    assert sum(report.latency[0]) == report.batches[1] == 8
    assert (report.reasons, set(report.counts.values())) == ({"INVALID_ENVELOPE": 1}, {0})
