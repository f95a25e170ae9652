"""Fixtures for tests of the command line: a project in its own folder, and `cqrs` called in the test's process."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from cqrs_cli.cli.context import Call, Cli
from cqrs_cli.cli.main import main, parse
from cqrs_cli.kafka.connection.connection import Connection
from tests.support import AGGREGATES


class CommandResult(NamedTuple):
    """The exit status and the output of a call of `cqrs`."""

    status: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON on stdout."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """The JSON Lines on stdout."""
        return [json.loads(line) for line in self.out.splitlines()]


Cqrs = Callable[..., CommandResult]
Connect = Callable[[Cli], object]


class OfflineCli(Cli):
    """The state of a call whose `connect` replaces the connection to a broker."""

    def __init__(self, connect: Connect, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._connect = connect

    def connection(self, start_broker: bool = True) -> Any:
        return self._connect(self)


def parse_offline(connect: Connect, arguments: Sequence[str]) -> Call | int:
    call = parse(arguments)
    if isinstance(call, int):
        return call
    options = {"output": call.cli.output, "quiet": call.cli.quiet, "verbose": call.cli.verbose}
    return replace(call, cli=OfflineCli(connect, call.cli.flags, **options))


@pytest.fixture
def cqrs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Cqrs:
    """`cqrs` in a project with all aggregates and without a configured broker."""
    (tmp_path / "cqrs.toml").touch()
    (tmp_path / "aggregates").symlink_to(AGGREGATES)
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str, connect: Connect | None = None) -> CommandResult:
        """Run a command.

        `connect` replaces the connection to a broker. A wrong call must not start a broker, which would keep running.
        """
        broker_existed = (broker := tmp_path / ".cqrs" / "kafka").exists()
        capfd.readouterr()
        status = main(arguments, partial(parse_offline, connect) if connect else None)
        assert status != 2 or broker_existed or not broker.exists()
        return CommandResult(status, *capfd.readouterr())

    return call


@pytest.fixture
def cqrs_on_broker(cqrs: Cqrs, connection: Connection, prefix: str) -> Cqrs:
    """`cqrs` on the shared broker, with the topics of `bank_account`."""

    def call(*arguments: str) -> CommandResult:
        return cqrs(*arguments, "-q", "-b", connection.bootstrap_server, "--topic-prefix", prefix)

    assert call("init", "bank_account", "--partitions", "2").status == 0
    return call
