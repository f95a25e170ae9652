"""An agent talks to `cqrs mcp` over stdio, through the client of the official SDK."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.cli.commands.conftest import BANK_ACCOUNT
from tests.cli.conftest import Cqrs
from tests.support import ROOT
from tests.support.simple_owner import SimpleOwner

pytestmark = [pytest.mark.kafka, pytest.mark.program]

#: Calls a tool with named arguments; returns its result, or the text of its error.
Tool = Callable[..., Awaitable[Any]]


@pytest.fixture
def server(
    cqrs_on_broker: Cqrs, connection: Connection, prefix: str, tmp_path: Path
) -> StdioServerParameters:
    flags = ["-b", connection.bootstrap_server, "--topic-prefix", prefix]
    return StdioServerParameters(
        command=sys.executable,
        args=["-m", "cqrs_cli", "mcp", *flags],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
    )


@pytest.fixture
def owner(cqrs_on_broker: Cqrs, connection: Connection, prefix: str) -> SimpleOwner:
    return SimpleOwner(connection, Topics("bank_account", prefix), BANK_ACCOUNT)


def session(server: StdioServerParameters, talk: Callable[[Client, Tool], Awaitable[None]]) -> None:
    """Run a conversation with the server."""

    async def run() -> None:
        async with Client(server) as client:

            async def call(name: str, **arguments: object) -> Any:
                result: Any = await client.call_tool(name, arguments)
                return result.content[0].text if result.is_error else result.structured_content

            await talk(client, call)

    asyncio.run(run())


@pytest.mark.slow
def test_agents_read_what_happened(
    server: StdioServerParameters, owner: SimpleOwner, cqrs_on_broker: Cqrs
) -> None:
    for id, command in (
        ("1", ["Open", "owner=Ada"]),
        ("2", ["Deposit", "amount=5"]),
        ("3", ["Withdraw", "amount=9"]),
    ):
        cqrs_on_broker("send", "bank_account", "a", *command, "--id", id)
    owner.decide()

    async def talk(client: Client, call: Tool) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"describe", "show", "history", "trace", "why", "sql", "whatif"}
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools.values())
        assert (await call("describe", aggregate="bank_account"))["title"] == "bank_account"
        assert (await call("show", aggregate="bank_account", id="a", at="1"))["version"] == 1
        history = await call("history", aggregate="bank_account", id="a")
        assert [event["version"] for event in history["history"]] == [1, 2] and history["omitted"] == 0
        (decision,) = (await call("why", command_id="3"))["decisions"]
        assert (decision["outcome"]["reason"], decision["state"]["state"]["balance"]) == ("BUSINESS_RULE", 5)
        assert decision["reason_means"] == "`decide` rejected the command: see `code` and `message`"
        assert "no bank_account has the id '--version'" in await call(
            "show", aggregate="bank_account", id="--version"
        )

    session(server, talk)


def test_sending_needs_a_dry_run(
    server: StdioServerParameters, owner: SimpleOwner, cqrs_on_broker: Cqrs
) -> None:
    server.env = {**(server.env or {}), "CQRS_MCP_ALLOW_SEND": "true"}
    command = {"aggregate": "bank_account", "id": "a", "command": "Open", "data": {"owner": "Ada"}}

    def count() -> int:
        return len(cqrs_on_broker("tail", "bank_account", "commands", "-o", "json").lines)

    async def talk(client: Client, call: Tool) -> None:
        dry_run_result = await call("send", **command)
        assert dry_run_result["dry_run"]["outcome"]["data"]["status"] == "accepted" and count() == 0
        changed_command = command | {"data": {"owner": "Eve"}, "token": dry_run_result["token"]}
        assert "the token belongs to no dry run of this command" in await call("send", **changed_command)
        assert "the token belongs to no dry run" in await call("send", **command, token="x") and count() == 0
        with owner.decide_in_background():
            send_result = await call("send", **command, token=dry_run_result["token"])
            assert send_result["result"]["data"]["status"] == "accepted" and count() == 1

    session(server, talk)


@pytest.mark.nightly
@pytest.mark.spark
def test_agents_use_spark(server: StdioServerParameters, owner: SimpleOwner, cqrs_on_broker: Cqrs) -> None:
    cqrs_on_broker("send", "bank_account", "a", "Open", "owner=Ada")
    owner.decide()

    async def talk(client: Client, call: Tool) -> None:
        query = "SELECT version, owner FROM bank_account_Opened;"
        assert (await call("sql", query=query))["rows"] == [{"version": 1, "owner": "Ada"}]
        assert "missing_view" in await call("sql", query="SELECT * FROM missing_view")
        assert (await call("sql", query="SELECT '${env:PATH}' AS a"))["rows"] == [{"a": "${env:PATH}"}]
        result = await call("whatif", aggregate="bank_account", module="aggregates.bank_account")
        assert (result["commands"], result["differences"]) == (1, [])

    session(server, talk)
