"""The tasks of a run: a lost task does not disturb its neighbours. New, drained and lost slots are handled."""

import threading
from collections.abc import Iterable
from contextlib import closing

import pytest

from cqrs_cli.deciding.plan import OwnerResult, Plan
from cqrs_cli.deciding.report import OwnerReport, encode_report
from cqrs_cli.ownership.assignment import Assignment
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.telemetry.datagrams import DatagramSender
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.slots import FakeCluster, running_driver, separate_owner_task
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def decide(counters: TopicHarness, first: int) -> None:
    """Send five commands to each counter, and wait until they are decided."""
    for subject in "ad":
        counters.send(*increment_commands(5, subject, first))
    for partition in range(2):
        counters.await_outcomes(first + 5, partition)


def claimed_submission(counters: TopicHarness, partition: int) -> int | None:
    """Return the submission that has committed its claim."""
    _, claim = counters.position_and_claim(partition)
    return None if claim is None else claim.submission


@pytest.mark.covers("one-outcome")
def test_lost_task_does_not_stop_its_neighbour(two_partitions: TopicHarness) -> None:
    lose_worker = threading.Event()

    def lose_first_submission(
        plan: Plan, assignment: Assignment, cancelled: threading.Event
    ) -> Iterable[OwnerResult]:
        if assignment == (0,) and plan.submission == 0:
            assert lose_worker.wait(60)
            raise RuntimeError("the worker is gone")
        return separate_owner_task(plan, assignment, cancelled)

    context, notes = FakeCluster(2, lose_first_submission), list[str]()
    with running_driver(context, two_partitions.plan(once=False), 2, notes):
        eventually(lambda: two_partitions.owning_run(1))
        _, claim_before = two_partitions.position_and_claim(1)
        lose_worker.set()
        decide(two_partitions, 0)
        _, claim_after = two_partitions.position_and_claim(1)
        assert claim_before and claim_after and claim_after.number == claim_before.number
        assert sorted(context.started_tasks) == [(0, (0,)), (0, (1,)), (1, (0,))]
    assert notes == ["a task was lost (the worker is gone); resubmitting in 0.01 s"]
    two_partitions.check_log()


def test_silent_task_is_restarted(two_partitions: TopicHarness) -> None:
    """Its worker died after a report, and Spark has not noticed."""

    def lose_first_submission(
        plan: Plan, assignment: Assignment, cancelled: threading.Event
    ) -> Iterable[OwnerResult]:
        if assignment == (0,) and plan.submission == 0:
            assert plan.reports is not None
            with closing(DatagramSender(plan.reports)) as sender:
                sender.send_body(encode_report(OwnerReport("counter", 0, 0, 0, 1, "decide")))
            assert cancelled.wait(60)
            raise RuntimeError("cancelled")
        return separate_owner_task(plan, assignment, cancelled)

    context, notes = FakeCluster(2, lose_first_submission), list[str]()
    timeout = 3.0 - Timing().decide_timeout
    with running_driver(context, two_partitions.plan(once=False), 2, notes, silence_timeout=timeout):
        decide(two_partitions, 0)
        assert (1, (0,)) in context.started_tasks
    assert notes[0] == "a task has sent no report for too long: restarting it"
    two_partitions.check_log()


@pytest.mark.covers("one-owner")
def test_new_slots_get_partitions(two_partitions: TopicHarness) -> None:
    context, notes = FakeCluster(1, separate_owner_task), list[str]()
    with running_driver(context, two_partitions.plan(once=False), 1, notes):
        decide(two_partitions, 0)
        context.executors["1"] = 2
        eventually(lambda: claimed_submission(two_partitions, 1) == 1)
        decide(two_partitions, 5)
        assert claimed_submission(two_partitions, 0) == 0
        assert context.started_tasks == [(0, (0, 1)), (1, (1,))]
    assert notes == ["1 more slot: moving 1 partition to it"]
    two_partitions.check_log()


@pytest.mark.covers("one-owner")
def test_drained_executors_lose_their_partitions(two_partitions: TopicHarness) -> None:
    """Partitions leave a drained executor as soon as another slot is free. Its task then ends by itself."""
    context, notes = FakeCluster(1, separate_owner_task), list[str]()
    with running_driver(context, two_partitions.plan(once=False), 1, notes, drain_timeout=60.0):
        decide(two_partitions, 0)
        context.drained.add("1")
        decide(two_partitions, 5)
        context.executors["2"] = 1
        eventually(lambda: "1" not in [executor for _, executor in context.running])
        decide(two_partitions, 10)
        assert claimed_submission(two_partitions, 0) == claimed_submission(two_partitions, 1) == 1
        assert context.started_tasks == [(0, (0, 1)), (1, (0, 1))]
    assert notes == ["an executor is drained: moving 2 partitions away"]
    two_partitions.check_log()


def test_task_without_partitions_may_end(two_partitions: TopicHarness) -> None:
    """The task may be lost with its executor, because it has no partitions any more."""

    def lose_first_submission(
        plan: Plan, assignment: Assignment, cancelled: threading.Event
    ) -> Iterable[OwnerResult]:
        results = list(separate_owner_task(plan, assignment, cancelled))
        if plan.submission == 0:
            raise RuntimeError("the executor is gone")
        return results

    context, notes = FakeCluster(1, lose_first_submission), list[str]()
    with running_driver(context, two_partitions.plan(once=False), 1, notes, drain_timeout=60.0):
        decide(two_partitions, 0)
        context.drained.add("1")
        context.executors["2"] = 1
        eventually(lambda: [executor for _, executor in context.running] == ["2"])
        poll_count = context.executor_listings
        eventually(lambda: context.executor_listings > poll_count + 5)
        decide(two_partitions, 5)
        assert [submission for submission, _ in context.started_tasks] == [0, 1]
    assert notes == ["an executor is drained: moving 2 partitions away"]
    two_partitions.check_log()


def test_drained_slot_restarts_the_tasks(two_partitions: TopicHarness) -> None:
    """The run restarts its tasks once no slot has been free for long. Until then the tasks decide."""
    stop_event = threading.Event()

    def wait_for_cancel(
        plan: Plan, assignment: Assignment, cancelled: threading.Event
    ) -> Iterable[OwnerResult]:
        if plan.submission == 0:
            assert cancelled.wait(60)
            stop_event.set()
            raise RuntimeError("cancelled")
        return separate_owner_task(plan, assignment, cancelled)

    context, notes = FakeCluster(1, wait_for_cancel), list[str]()
    context.executors["2"] = 1
    with running_driver(context, two_partitions.plan(once=False), 2, notes):
        eventually(lambda: len(context.started_tasks) == 2)
        context.drained.add("2")
        assert stop_event.wait(60)
        decide(two_partitions, 0)
        assert context.started_tasks[-1] == (1, (0, 1))
    assert notes == ["2 tasks have 1 slot: restarting with 1"]
    two_partitions.check_log()


def test_tasks_stay_if_all_slots_drain(two_partitions: TopicHarness) -> None:
    context, notes = FakeCluster(1, separate_owner_task), list[str]()
    with running_driver(context, two_partitions.plan(once=False), 1, notes) as run:
        decide(two_partitions, 0)
        context.drained.add("1")
        poll_count = context.executor_listings
        eventually(lambda: context.executor_listings > poll_count + 20)
        decide(two_partitions, 5)
        assert not run.done()
    assert (context.started_tasks, notes) == ([(0, (0, 1))], [])


def test_lost_slot_restarts_the_tasks(two_partitions: TopicHarness) -> None:
    """A task without a slot has partitions without an owner."""

    def wait_for_lost_slot(
        plan: Plan, assignment: Assignment, cancelled: threading.Event
    ) -> Iterable[OwnerResult]:
        if assignment != (0, 1):
            is_lost = assignment == (1,) and eventually(
                lambda: context.executors["1"] == 1 or cancelled.is_set()
            )
            if not is_lost:
                assert cancelled.wait(60)
            raise RuntimeError("the worker is gone")
        return separate_owner_task(plan, assignment, cancelled)

    context, notes = FakeCluster(2, wait_for_lost_slot), list[str]()
    with running_driver(context, two_partitions.plan(once=False), 2, notes):
        eventually(lambda: len(context.started_tasks) == 2)
        context.executors["1"] = 1
        decide(two_partitions, 0)
        assert context.started_tasks[-1][1] == (0, 1)
    assert "2 tasks have 1 slot: restarting with 1" in notes
    two_partitions.check_log()
