"""The status of a process manager: its position, its owner, and the event at which it stopped."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cqrs_cli.cli.output import Printer
from cqrs_cli.cli.render.status import status_text
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.processes.retire import retire_processes
from cqrs_cli.status.columns import partition_document
from cqrs_cli.status.rates import StatusSnapshot
from cqrs_cli.telemetry.blocked_file import read_reason
from tests.following.processes.process_harness import RunningProcess, Stage, orders, run_in_this_process
from tests.support.checkout import statuses
from tests.support.short_timeouts import impatience
from tests.support.transactional_topic import begin
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def shown(stage: Stage, capsys: pytest.CaptureFixture[str]) -> str:
    Printer().print_result({}, status_text(StatusSnapshot(0, tuple(statuses(stage).values())), "lmdb"))
    return capsys.readouterr().out


def test_status_follows_the_position(stage: Stage) -> None:
    stage.place(0, 3)
    new = statuses(stage)["order"]
    assert (new.position, new.lag) == (None, 0)
    plan = stage.plan()
    run_in_this_process(plan)
    retire_processes(plan)
    stage.place(3, 2)
    seen = statuses(stage)["order"]
    assert seen.position and seen.end and seen.lag == seen.end - seen.position > 0
    row = partition_document(seen)
    assert (row["topic"], row["position"], row["lag"]) == (stage.events, seen.position, seen.lag)
    assert (row["owner"]["run"], row["owner"]["stopped"], row["stopped_at"]) == (plan.run, True, None)


def test_event_that_stopped_is_shown(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.react()
    stage.place(0, 1)
    plan = stage.plan()
    plan = replace(plan, commands={})  # the topic of its commands came later
    (error,) = [result.error for result in run_in_this_process(plan) if result.error is not None]
    at = statuses(stage)["order"].stopped_at
    assert at is not None and f"--skip checkout:order:0@{at}" in error.hint
    text = " ".join(shown(stage, capsys).split())
    assert f"process checkout was stopped by {stage.events}:0@{at}" in text
    assert f"cqrs run --process checkout --skip checkout:order:0@{at}" in text


@pytest.fixture
def impatient() -> Iterator[None]:
    with impatience():
        yield


def test_status_names_what_it_waits_for(
    stage: Stage, impatient: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another program's open transaction hides the positions. The status reports it until it has ended."""
    stage.react(beginning=True)
    stranger = begin(stage.connection, stage.topics.positions, [b"?"])
    stage.place(0, 1)
    process = RunningProcess(stage.plan(once=False))
    why = eventually(lambda: statuses(stage)["order"].waits_for)
    assert why and why.startswith(f"{stage.topics.positions} partition 0: no record is visible at offset")
    assert partition_document(statuses(stage)["order"])["waits_for"] == why
    assert f"checkout < order 0: it waits: {why}" in " ".join(shown(stage, capsys).split())
    stranger.abort_transaction(10)
    eventually(lambda: stage.asked() == orders(0, 1))
    eventually(lambda: not read_reason(process.plan.status_folder(process.plan.subscriptions[0])))
    process.end()


def test_missing_topic_is_an_error(stage: Stage) -> None:
    stage.delete(stage.topics.positions)
    with pytest.raises(ConfigurationError, match="does not exist"):
        statuses(stage)
