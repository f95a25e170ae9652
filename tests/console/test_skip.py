"""Skipping the event that stopped a process manager: with a preview, recorded with the name of the token."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cqrs_cli import registry
from cqrs_cli.console.actions import ACTIONS, ActionRequest
from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.console.traces import read_trace
from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.gateway.gateway import Problem
from cqrs_cli.following.gateway.token import Access
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.processes.retire import retire_processes
from cqrs_cli.following.processes.session import ReactSession
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.observer import observing
from tests.following.processes.process_harness import ProcessHarness, expected_payments, run_in_this_process
from tests.support import ROOT
from tests.support.topic_settings import configure_topic

ANN = Access(frozenset({"read", "operate"}), "ann")


class StoppedProcess:
    """`checkout` is stopped by the first of two events, and its run has ended."""

    def __init__(self, harness: ProcessHarness) -> None:
        self.harness = harness
        harness.run_once()
        harness.place_orders(0, 2)
        plan = replace(harness.plan(), outputs={})  # as if the commands topic was created after the plan
        run_in_this_process(plan)
        retire_processes(plan)
        aggregates = {name: registry.load(name, "aggregates", ROOT) for name in ("order", "payment")}
        process = load_process("checkout", ROOT, "aggregates")
        self.project = ConsoleProject(harness.settings, harness.connection, aggregates, [process])
        position = harness.position()
        assert position is not None and position.stopped is not None
        self.offset = position.stopped

    def skip(self, is_dry_run: bool = False, **body: Any) -> dict[str, Any]:
        selected: dict[str, Any] = {
            "process": "checkout",
            "aggregate": "order",
            "partition": 0,
            "offset": self.offset,
        }
        request = ActionRequest(**(selected | body))
        return ACTIONS["processes", "skip"](self.project, request, ANN, is_dry_run)


@pytest.fixture
def stopped(connection: Connection, prefix: str, tmp_path: Path) -> StoppedProcess:
    return StoppedProcess(ProcessHarness(connection, prefix, state_dir=tmp_path / "state"))


@pytest.mark.kafka
def test_skip_is_previewed_recorded_and_traced(stopped: StoppedProcess) -> None:
    before = stopped.harness.position()
    preview = stopped.skip(is_dry_run=True)
    assert (preview["event"]["subject"], preview["error"]["offset"]) == ("o-0-0", stopped.offset)
    assert preview["command"] == "cqrs run --process checkout" and stopped.harness.position() == before
    for wrong, status in (
        ({"offset": stopped.offset + 1}, 409),
        ({"process": "x"}, 404),
        ({"partition": 9}, 404),
    ):
        with pytest.raises(Problem) as problem:
            stopped.skip(**wrong)
        assert problem.value.status == status
    assert stopped.skip() == {"skipped": 1, "process": "checkout", "position": stopped.offset + 1}
    position = stopped.harness.position()
    assert position is not None and (position.stopped, position.error) == (None, None)
    assert [(skip.offset, skip.actor) for skip in position.skips] == [(stopped.offset, "ann")]
    with pytest.raises(Problem):
        stopped.skip()
    stopped.harness.run_once()
    payments = expected_payments(0, 2)
    del payments["o-0-0"]
    assert stopped.harness.payment_requests() == payments
    (command,) = read_trace(stopped.project, ["order"], "o-0-0", 0, True, lambda: None)["commands"]
    (skipped,) = command["events"][0]["skipped"]
    assert (skipped["process"], skipped["actor"]) == ("checkout", "ann")


class StartingRuns:
    """Fences the first `count` skips between their fence and their commit."""

    def __init__(self, stopped: StoppedProcess, count: int) -> None:
        self.plan, self.count, self.fences = stopped.harness.plan(), count, 0

    def fence(self, flush: Any) -> None:
        if self.fences < self.count:
            self.fences += 1
            subscription = self.plan.subscriptions[0]  # of `order`
            with ReactSession(self.plan, subscription, self.plan.claim(subscription, 0), 1) as session:
                session.writer.fence()


@pytest.mark.kafka
def test_fenced_skips_are_repeated(stopped: StoppedProcess) -> None:
    """A skip whose runs keep starting ends with an error that names them, not the broker."""
    always, once = StartingRuns(stopped, 99), StartingRuns(stopped, 1)
    with observing({"produce.first": always.fence}), pytest.raises(UnavailableError) as error_info:
        stopped.skip()
    assert error_info.value.message.endswith("was not committed: a starting run fenced it")
    with observing({"produce.first": once.fence}):
        stopped.skip()
    position = stopped.harness.position()
    assert position is not None and [skip.offset for skip in position.skips] == [stopped.offset]
    assert (always.fences, once.fences) == (3, 1)


@pytest.mark.kafka
def test_refused_skip_is_an_error(stopped: StoppedProcess) -> None:
    harness = stopped.harness
    configure_topic(harness.connection, harness.topics.positions_topic, {"max.message.bytes": "100"})
    with pytest.raises(UnavailableError, match="was not committed"):
        stopped.skip()
