"""A run with process managers: one job, one result."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from cqrs_cli.cli.context import Cli
from cqrs_cli.cli.processes import selected_processes, usable_processes
from cqrs_cli.deciding.plan import Plan
from cqrs_cli.errors import CqrsError, TakenOverError, UsageError
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessResult
from cqrs_cli.jobs.run import run_owners
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.ownership.claim import TERMINAL
from cqrs_cli.ownership.owner_exit import OwnerExit
from cqrs_cli.ownership.session import Session
from cqrs_cli.runs.other_runs import unhandled_part
from cqrs_cli.runs.run_partitions import run_partitions
from cqrs_cli.runs.run_plan import OperatorOverrides, plan_run
from cqrs_cli.runs.snapshot import Snapshot
from cqrs_cli.runs.task import own_partitions
from tests.following.processes.process_harness import ProcessHarness, ThreadedRun, expected_payments
from tests.support.commands import command
from tests.support.driver import FakeSparkContext
from tests.support.harness import SHORT_TIMEOUTS, TopicHarness
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

FAST_TIMING = replace(SHORT_TIMEOUTS, first_backoff=0.01, progress_interval=0.05)


@pytest.fixture
def harness(connection: Connection, prefix: str) -> ProcessHarness:
    return ProcessHarness(connection, prefix)


@pytest.fixture
def payments(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return TopicHarness(connection, prefix, tmp_path, "payment")


def drive(
    plan: Plan,
    processes: ProcessPlan,
    task: Callable[[Plan, ProcessPlan], Iterable[OwnerExit[Any]]] = lambda plan, processes: own_partitions(
        plan, run_partitions(plan, processes), 0, processes
    ),
) -> tuple[Snapshot, list[str]]:
    """Run one task in this process. Return the result of the run, and its notes."""
    notes: list[str] = []
    processes = replace(processes, run=plan.run, timing=FAST_TIMING)
    context = FakeSparkContext(lambda plan: cast(Any, task(plan, processes)))
    return run_owners(
        cast(Any, context), replace(plan, timing=FAST_TIMING), 1, lambda _: None, notes.append, processes
    ), notes


@pytest.mark.covers("reacted-once")
def test_one_run_decides_commands_and_reacts(harness: ProcessHarness, payments: TopicHarness) -> None:
    harness.run_once()  # commits its start position
    harness.place_orders(0, 5)
    payments.send(command("payment.Request", "o-x", "Request-o-x", {"customer": "ann"}))
    result, _ = drive(payments.plan(), harness.plan())
    assert result.process_progress is not None
    assert (result.process_progress.events, result.process_progress.commands) == (
        5,
        10,
    )  # a request and a deferred cancellation
    assert result.total("accepted") >= 1  # the process manager's commands may be decided, too
    assert result.summary()["processes"]["checkout"]["lag"] == 0
    assert harness.payment_requests() == expected_payments(0, 5) + Counter({"o-x": 1})
    position, (_, claim) = harness.position(), payments.position_and_claim()
    assert position and claim and position.claim.run == claim.run
    assert position.claim.attempt == claim.attempt == TERMINAL


def sessions_alive() -> list[Session[Any]]:
    return [object for object in gc.get_objects() if isinstance(object, Session)]


def test_ended_task_closes_its_clients(harness: ProcessHarness, payments: TopicHarness) -> None:
    """Each client has threads and one of the few thread-local storage keys of a process. A worker serves many tasks."""
    harness.run_once()
    harness.place_orders(0, 1)
    old_sessions = sessions_alive()
    gc.disable()
    try:
        drive(payments.plan(), harness.plan())
        assert sessions_alive() == old_sessions
    finally:
        gc.enable()


def test_stopped_process_ends_the_run(harness: ProcessHarness, payments: TopicHarness) -> None:
    """The error names the process manager, and how to skip the event.

    The aggregates' partitions end without errors, and are fenced.
    """
    harness.run_once()
    payments.send(command("payment.Request", "o-x", "Request-o-x", {"customer": "ann"}))
    plan, process_plan = payments.plan(once=False), harness.plan(once=False)
    refusing_plan = replace(
        process_plan,
        outputs={name: output for name, output in process_plan.outputs.items() if name != "payment.commands"},
    )

    def place_once_claimed() -> None:
        eventually(lambda: payments.position_and_claim()[1])
        harness.place_orders(0, 3)

    with ThreadPoolExecutor(1) as executor, pytest.raises(CqrsError) as raised:
        executor.submit(place_once_claimed)
        drive(plan, refusing_plan)
    assert raised.value.exit_code == 1
    position = harness.position()
    assert position and position.stopped is not None
    location = f"{harness.events}:0@{position.stopped}"
    assert raised.value.message.startswith(
        f"process checkout returned invalid commands for order.Placed {location} "
    )
    assert raised.value.hint.endswith(f"--skip checkout:order:0@{position.stopped}")
    _, claim = payments.position_and_claim()
    assert claim and claim.attempt == TERMINAL


def test_taken_over_process_is_named(harness: ProcessHarness, payments: TopicHarness) -> None:
    harness.run_once()
    plan, process_plan = payments.plan(once=False), harness.plan(once=False)
    later_run = ThreadedRun(harness.plan())

    def end_as_taken_over(_: Plan, processes: ProcessPlan) -> list[ProcessResult]:
        assert later_run.wait_for_error() is None
        return [ProcessResult(processes.subscriptions[0], error=TakenOverError("taken"))]

    with pytest.raises(TakenOverError) as raised:
        drive(plan, process_plan, end_as_taken_over)
    assert raised.value.message == (
        f"run {later_run.plan.run} took over process checkout; no run decides for payment now"
    )
    assert raised.value.hint.endswith(": cqrs run payment")


def test_once_leaves_reactions_to_others(harness: ProcessHarness) -> None:
    assert (
        unhandled_part(harness.plan(), print) is not None
    )  # a new process manager commits its start position
    harness.run_once()
    assert unhandled_part(harness.plan(), print) is None
    harness.place_orders(0, 3)
    plan = harness.plan()
    assert unhandled_part(plan, print, timeout=0.0) == plan


def harness_cli(harness: ProcessHarness) -> Cli:
    """A call with the settings of the harness."""
    cli = Cli({"topic_prefix": harness.prefix})
    cli.__dict__["settings"] = harness.settings
    return cli


def test_processes_without_a_topic_wait(harness: ProcessHarness, capsys: pytest.CaptureFixture[str]) -> None:
    """A process manager without a topic runs only if it is named. A run without process managers refuses --skip."""
    cli = harness_cli(harness)
    assert [process.name for process in selected_processes(cli, harness.connection, None)] == ["checkout"]
    harness.delete_topics(harness.topics.positions_topic)
    assert selected_processes(cli, harness.connection, None) == []
    assert "no topic: process checkout; create it: cqrs init" in " ".join(capsys.readouterr().err.split())
    assert [process.name for process in selected_processes(cli, harness.connection, ["checkout"])] == [
        "checkout"
    ]
    with pytest.raises(UsageError, match="is a position of a process manager, and this run has none"):
        plan_run(harness.settings, harness.connection, {}, [], OperatorOverrides(skip=["checkout:order:0@0"]))


def test_process_managers_run_without_aggregates(harness: ProcessHarness) -> None:
    harness.place_orders(0, 3)
    (checkout,) = usable_processes(harness_cli(harness), ["checkout"])
    plan = plan_run(harness.settings, harness.connection, {}, [checkout], from_beginning=True, once=True)
    assert (
        plan.deciding_plan.topics == {} and plan.process_plan is not None and plan.process_plan.from_beginning
    )
    result, _ = drive(plan.deciding_plan, plan.process_plan)
    assert result.process_progress is not None and result.process_progress.events == 3
    second_plan = plan_run(harness.settings, harness.connection, {}, [checkout], once=True)
    assert second_plan.remaining_part(print) is None
    assert second_plan.finished_snapshot().summary()["processes"]["checkout"]["lag"] == 0
