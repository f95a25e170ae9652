"""Programs cancel and release deferred commands."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

import cqrs_cli as cqrs
from aggregates.bank_account import Open
from cqrs_cli.client.command_outcome import CommandOutcome
from cqrs_cli.client.pending_outcome import PendingOutcome
from cqrs_cli.errors import UsageError
from cqrs_cli.kafka.connection.connection import Connection
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.waiting import eventually


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return TopicHarness(connection, prefix, tmp_path, "bank_account")


@pytest.fixture
def client(harness: TopicHarness, connection: Connection, prefix: str) -> Iterator[cqrs.Client]:
    with cqrs.Client(ROOT, bootstrap_server=connection.bootstrap_server, topic_prefix=prefix) as client:
        yield client


def decide_until_outcome(harness: TopicHarness, command: PendingOutcome) -> CommandOutcome:
    """Decide until the command has its outcome, and return it."""
    eventually(lambda: decide_all(harness) and command.done())
    return command.wait()


def decide_all(harness: TopicHarness) -> bool:
    """Decide all commands that exist now."""
    run_plan(harness.plan())
    return True


def verdicts(harness: TopicHarness, id: str) -> list[tuple[str, str | None]]:
    verdicts_of_command = [outcome.data for outcome in harness.outcomes() if outcome.causationid == id]
    return [(outcome.status, outcome.reason or None) for outcome in verdicts_of_command]


@pytest.mark.kafka
def test_programs_cancel_and_release(harness: TopicHarness, client: cqrs.Client) -> None:
    first = client.send("a", Open("ann"), not_before=timedelta(days=3))
    second = client.send("b", Open("bob"), not_before=timedelta(days=3))
    assert (decide_until_outcome(harness, first).status, decide_until_outcome(harness, second).status) == (
        "deferred",
        "deferred",
    )
    cancelled = decide_until_outcome(
        harness, client.send("a", cqrs.Cancel(first.id), aggregate="bank_account")
    )
    assert cancelled.ok and cancelled.target is not None
    assert (cancelled.target.id, cancelled.target.offset) == (first.id, 0)

    async def release() -> CommandOutcome:
        command = client.send("b", cqrs.Release(second.id), aggregate="bank_account")
        await asyncio.to_thread(decide_until_outcome, harness, command)
        return await command

    assert asyncio.run(release()).ok
    unknown = decide_until_outcome(
        harness, client.send("b", cqrs.Cancel("unknown-id"), aggregate="bank_account")
    )
    assert (unknown.ok, unknown.reason, unknown.target) == (False, "NOT_FOUND", None)
    eventually(lambda: decide_all(harness) and len(verdicts(harness, second.id)) == 2)
    assert verdicts(harness, first.id) == [("deferred", "NOT_YET"), ("rejected", "CANCELLED")]
    assert [status for status, _ in verdicts(harness, second.id)] == ["deferred", "accepted"]


def test_builtin_commands_need_an_aggregate() -> None:
    client = cqrs.Client(ROOT, bootstrap_server="127.0.0.1:1")
    with pytest.raises(
        UsageError, match="Cancel is a command of every aggregate; name the aggregate: aggregate="
    ):
        client.send("a", cqrs.Cancel("x"))
    with pytest.raises(UsageError, match=r"cqrs\.Release: Expected `str`, got `int`"):
        client.send("a", cqrs.Release(7), aggregate="order")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Erase is a command of every aggregate with personal fields; name"):
        client.send("a", cqrs.Erase())
    with pytest.raises(UsageError, match="bank_account has no personal fields"):
        client.send("a", cqrs.Erase(), aggregate="bank_account")
