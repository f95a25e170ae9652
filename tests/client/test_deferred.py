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
from tests.support.owners import quietly
from tests.support.waiting import eventually


@pytest.fixture
def harness(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    return TopicHarness(connection, prefix, tmp_path, "bank_account")


@pytest.fixture
def client(harness: TopicHarness, connection: Connection, prefix: str) -> Iterator[cqrs.Client]:
    with cqrs.Client(ROOT, bootstrap_server=connection.bootstrap_server, topic_prefix=prefix) as made:
        yield made


def decided(harness: TopicHarness, command: PendingOutcome) -> CommandOutcome:
    """Decide until the command has its outcome, and return it."""
    eventually(lambda: turn(harness) and command.done())
    return command.wait()


def turn(harness: TopicHarness) -> bool:
    """Decide all commands that exist now."""
    quietly(harness.plan())
    return True


def said(harness: TopicHarness, id: str) -> list[tuple[str, str | None]]:
    outcomes = [one.data for one in harness.outcomes() if one.causationid == id]
    return [(one.status, one.reason or None) for one in outcomes]


@pytest.mark.kafka
def test_programs_cancel_and_release(harness: TopicHarness, client: cqrs.Client) -> None:
    first = client.send("a", Open("ann"), not_before=timedelta(days=3))
    second = client.send("b", Open("bob"), not_before=timedelta(days=3))
    assert (decided(harness, first).status, decided(harness, second).status) == ("deferred", "deferred")
    cancelled = decided(harness, client.send("a", cqrs.Cancel(first.id), aggregate="bank_account"))
    assert cancelled.ok and cancelled.target is not None
    assert (cancelled.target.id, cancelled.target.offset) == (first.id, 0)

    async def release() -> CommandOutcome:
        sent = client.send("b", cqrs.Release(second.id), aggregate="bank_account")
        await asyncio.to_thread(decided, harness, sent)
        return await sent

    assert asyncio.run(release()).ok
    nothing = decided(harness, client.send("b", cqrs.Cancel("nobody"), aggregate="bank_account"))
    assert (nothing.ok, nothing.reason, nothing.target) == (False, "NOT_FOUND", None)
    eventually(lambda: turn(harness) and len(said(harness, second.id)) == 2)
    assert said(harness, first.id) == [("deferred", "NOT_YET"), ("rejected", "CANCELLED")]
    assert [status for status, _ in said(harness, second.id)] == ["deferred", "accepted"]


def test_requests_need_their_aggregate() -> None:
    client = cqrs.Client(ROOT, bootstrap_server="127.0.0.1:1")
    with pytest.raises(UsageError, match="Cancel is a command of every aggregate; say which: aggregate="):
        client.send("a", cqrs.Cancel("x"))
    with pytest.raises(UsageError, match=r"cqrs\.Release: Expected `str`, got `int`"):
        client.send("a", cqrs.Release(7), aggregate="order")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Erase is a command of every aggregate with personal fields; say"):
        client.send("a", cqrs.Erase())
    with pytest.raises(UsageError, match="bank_account marks no field as personal"):
        client.send("a", cqrs.Erase(), aggregate="bank_account")
