"""A console over accounts with outcomes of all kinds."""

import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cqrs_cli.console.api import ConsoleApi
from cqrs_cli.console.project import ConsoleProject
from cqrs_cli.console.sampler import StatusSampler
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.deciding.retire import retire
from cqrs_cli.following.gateway.token import NO_TOKENS, Tokens
from cqrs_cli.following.processes.load import LoadedProcess
from cqrs_cli.kafka.connection.connection import Connection
from tests.following.gateway.conftest import GatewayClient, running_gateway
from tests.support.commands import CommandRecord, command
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.waiting import eventually


class ServerSentEvent(NamedTuple):
    name: str
    data: Any


class ConsoleClient:
    """The console of a gateway over the topics of `harness`."""

    def __init__(self, gateway: GatewayClient, harness: TopicHarness) -> None:
        self.gateway, self.harness = gateway, harness

    def get(self, path: str, **headers: str) -> Any:
        """Return the document of a path below `/api`."""
        response = self.gateway.get(f"/api/{path}", **headers)
        assert response.status == 200, response
        return response.body

    def events(self, path: str, count: int | None = None, **headers: str) -> list[ServerSentEvent]:
        """Return the events of a stream, all or the first `count`."""
        connection = self.gateway.connect()
        try:
            sent_headers = {"Accept": "text/event-stream", **self.gateway.headers(headers)}
            connection.request("GET", f"/api/{path}", headers=sent_headers)
            with connection.getresponse() as response:
                events: list[ServerSentEvent] = []
                while (line := response.readline()) and len(events) != count:
                    if line.startswith(b"event: "):
                        data = response.readline().removeprefix(b"data: ")
                        events.append(ServerSentEvent(line[7:].decode().strip(), json.loads(data)))
                return events
        finally:
            connection.close()


@contextmanager
def running_console(
    harness: TopicHarness,
    folder: Path,
    *,
    connection: Connection | None = None,
    tokens: Tokens = NO_TOKENS,
    port: int = 0,
    others: Iterable[Aggregate] = (),
    processes: Sequence[LoadedProcess] = (),
) -> Iterator[ConsoleClient]:
    """Run a gateway with a console over `harness`, and `others` with its prefix, while the block lasts."""
    connection = connection or harness.connection
    aggregates = {aggregate.name: aggregate for aggregate in (harness.aggregate, *others)}
    project = ConsoleProject(harness.settings, connection, aggregates, processes)
    sampler = StatusSampler(project, interval=0.1)
    sampler.start()
    try:
        with running_gateway(
            connection,
            harness.topics,
            folder,
            tokens=tokens,
            aggregate=harness.aggregate,
            others=others,
            console=ConsoleApi(project, sampler),
            port=port,
        ) as gateway:
            eventually(lambda: sampler.sample.snapshot is not None)
            yield ConsoleClient(gateway, harness)
    finally:
        sampler.close()


@pytest.fixture(scope="module")
def console(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleClient]:
    """A console over a decided account with a rejected command, a dead letter and a deferred command, and over a
    command without an outcome.
    """
    folder = tmp_path_factory.mktemp("console")
    harness = TopicHarness(connection, f"t{uuid.uuid4().hex[:8]}.", folder, "bank_account", partitions=2)
    harness.send(
        command("bank_account.Open", "acc-1", "open-1", {"owner": "Ada Lovelace"}, correlationid="flow-1"),
        command("bank_account.Withdraw", "acc-1", "withdraw-1", {"amount": 5}, correlationid="flow-1"),
        command("bank_account.Fly", "acc-1", "fly-1"),
        command("bank_account.Deposit", "acc-1", "later-1", {"amount": 7}, notbefore="2999-01-01T00:00:00Z"),
        CommandRecord(b"?", b"x"),
    )
    plan = harness.plan()
    run_plan(plan)
    retire(plan)  # as the driver does at the end of a run
    harness.send(command("bank_account.Deposit", "acc-1", "waiting-1", {"amount": 1}))
    with running_console(harness, folder / "gateway") as client:
        yield client
