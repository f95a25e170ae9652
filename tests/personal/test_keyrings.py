"""Each command without a keyring, and with a keyring that lacks a KEK in use, ends as docs/personal.md describes."""

import json
import re
import shlex
import subprocess
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from cqrs_cli.cli.main import main
from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.customers import PERSONAL_TEXT, customer_topics, register_command
from tests.support import ROOT
from tests.support.owners import run_plan
from tests.support.page import Page

pytestmark = pytest.mark.kafka

#: Commands that start Spark. They run in another process, because this process may have a Spark session of the tests.
SPARK_COMMANDS = ("run", "replay", "export", "sql", "verify customer", "whatif")

SPARK_MARKS = (pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly)

TABLE_HEADER = "command | the setting `keyring` is missing | the keyring lacks a KEK that the command needs"

#: The arguments of the commands in the page's table.
CALLS = {
    "run": "run customer --once",
    "rebuild": "rebuild customer",
    "replay --personal": "replay customer --out out --personal",
    "export --personal": "export customer --out out --personal",
    "serve": "serve customer --token-file token",
    "show": "show customer ann",
    "tail": "tail customer events",
    "trace": "trace ann.0 --since 1d",
    "send --dry-run": "send customer ann Register name=A mail=a@b --dry-run",
    "sql": "sql 'SELECT name FROM customer_Registered'",
    "project": "project names --once",
    "run --process": "run --process greeting --once --from beginning",
    "verify": "verify customer",
    "keys status": "keys status customer",
    "doctor": "doctor",
    "doctor --for read": "doctor --for read",
    "keys rotate": "keys rotate",
}

#: Commands that do not need the keyring.
COMMANDS_WITHOUT_KEYS = [
    "send customer bob Register name=B mail=b@b",
    "erase customer ann --dry-run",
    "erase customer bob --no-wait",
    "init customer",
    "status customer --digest",
    "deferred list customer",
    "dead-letters list customer",
    "tail customer commands",
    "tail customer outcomes",
    "verify customer --erased",
    "describe customer",
]

SPARK_COMMANDS_WITHOUT_KEYS = [
    "replay customer --out replayed",
    "export customer --out exported",
    "whatif customer --with people.customer",
]

_SLOW_COMMANDS = (
    "rebuild",
    "run",
    "replay --personal",
    "export --personal",
    "sql",
    "run --process",
    "verify",
)

PROCESS_CODE = """
from collections.abc import Iterator
import cqrs_cli as cqrs
from people.customer import Registered

def react(event: Registered | cqrs.Erased, at: cqrs.Recorded[Registered | cqrs.Erased]) -> Iterator[cqrs.Send]:
    yield from ()

process = cqrs.Process(react)
"""

PROJECTION_CODE = """
from collections.abc import Sequence
from sqlalchemy import Column, Connection, MetaData, String, Table
import cqrs_cli as cqrs
from people.customer import Registered

metadata = MetaData()
names = Table("names", metadata, Column("id", String(50), primary_key=True))

def project(db: Connection, events: Sequence[cqrs.Recorded[Registered | cqrs.Erased]]) -> None:
    assert events

projection = cqrs.Projection(project, metadata)
"""


class Row(NamedTuple):
    """The exit codes of a command without a keyring, and with a missing KEK."""

    command: str
    without: int
    lacking: int


def rows() -> list[Row]:
    """Return the rows of the page's table."""
    text = Page("docs/personal.md").text
    table = text[text.index(f"| {TABLE_HEADER} |") :].split("\n\n")[0].splitlines()[2:]
    rows = [line.strip("| ").split(" | ") for line in table]
    return [
        Row(command, int(exit_code_without[0]), int(exit_code_lacking[0]))
        for commands, exit_code_without, exit_code_lacking in rows
        for command in re.findall("`([^`]+)`", commands)
    ]


RunCqrs = Callable[[str, str | None], tuple[int, str]]


@pytest.fixture
def run_cqrs(
    connection: Connection,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> RunCqrs:
    """A function that runs `cqrs` with a keyring.

    In its project Ann is registered, and a second command is undecided.
    """
    people = customer_topics(connection, prefix, tmp_path)
    people.send(register_command("ann"))
    run_plan(people.plan())
    people.send(register_command("ann", 1))
    keyring = {"other": b64encode(b"o" * 64).decode()}
    code = (ROOT / "tests/core/personal/customer.py").read_text().partition("\nCUSTOMER = ")[0]
    for name, text in {
        "lacking.json": json.dumps(keyring),
        "token": f"{'t' * 40} personal",
        "people/customer.py": code,
        "processes/greeting.py": PROCESS_CODE,
        "projections/names.py": PROJECTION_CODE,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    settings = {
        "bootstrap_server": connection.bootstrap_server,
        "topic_prefix": prefix,
        "aggregates": "people",
    }
    monkeypatch.chdir(tmp_path)

    def run(arguments: str, keyring_file: str | None) -> tuple[int, str]:
        project_settings = settings | ({} if keyring_file is None else {"keyring": f"file:{keyring_file}"})
        Path("cqrs.toml").write_text(
            "".join(f'{name} = "{value}"\n' for name, value in project_settings.items())
        )
        if arguments.startswith(SPARK_COMMANDS):
            cqrs = Path(sys.executable).with_name("cqrs")
            result = subprocess.run(
                [cqrs, *shlex.split(arguments)], capture_output=True, text=True, check=False
            )
            return result.returncode, result.stdout + result.stderr
        capfd.readouterr()
        status = main(shlex.split(arguments))
        return status, "".join(capfd.readouterr())

    assert run("init", None)[0] == 0  # creates the positions topic of the process manager
    return run


def cases(exit_code_of: Callable[[Row], int]) -> list[object]:
    """Return the calls with their exit codes. Calls that need Spark, or a process per partition, are marked slow."""
    return [
        pytest.param(
            CALLS[row.command],
            exit_code_of(row),
            id=row.command,
            marks=()
            if row.command not in _SLOW_COMMANDS or exit_code_of(row) == 3
            else SPARK_MARKS[: 2 if row.command == "run" else 3],
        )
        for row in rows()
        if (row.command, exit_code_of(row)) != ("serve", 0)
    ]


@pytest.mark.parametrize(("arguments", "status"), cases(lambda row: row.without))
def test_commands_without_a_keyring(run_cqrs: RunCqrs, arguments: str, status: int) -> None:
    exit_code, output = run_cqrs(arguments, None)
    assert exit_code == status, output
    assert status == 0 or "keyring" in output


@pytest.mark.parametrize(("arguments", "status"), cases(lambda row: row.lacking))
def test_commands_with_a_missing_kek(run_cqrs: RunCqrs, arguments: str, status: int) -> None:
    exit_code, output = run_cqrs(arguments, "lacking.json")
    assert exit_code == status, output
    assert PERSONAL_TEXT not in output
    assert status == 0 or "under the key-encryption key '2026-11', which is not in the keyring" in output


def test_unreadable_keyring_is_an_error(run_cqrs: RunCqrs) -> None:
    """It does not count as no keyring."""
    for command in (
        "show",
        "tail",
        "trace",
        "send --dry-run",
        "rebuild",
        "serve",
        "project",
    ):
        exit_code, output = run_cqrs(CALLS[command], "nothing.json")
        assert (exit_code, "nothing.json cannot be read" in output) == (3, True), output


@pytest.mark.parametrize(
    "arguments", [COMMANDS_WITHOUT_KEYS, pytest.param(SPARK_COMMANDS_WITHOUT_KEYS, marks=SPARK_MARKS)]
)
def test_other_commands_need_no_keyring(run_cqrs: RunCqrs, arguments: list[str]) -> None:
    """Commands that read the unreadable keyring would exit with 3."""
    for command_line in arguments:
        exit_code, output = run_cqrs(command_line, "nothing.json")
        assert exit_code == 0, output


def test_page_lists_each_command() -> None:
    assert {row.command for row in rows()} == CALLS.keys()
