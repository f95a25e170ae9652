"""docs/recipes.md: its files pass their tests, its programs run, its commands are understood."""

import json
import os
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cqrs_cli import registry, scaffold
from cqrs_cli.cli import main
from cqrs_cli.cli.context import Call
from cqrs_cli.core.messages.command import CommandEnvelope, read_command
from cqrs_cli.core.messages.record import Record
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.settings.java_properties import parse_properties
from tests.support import ROOT
from tests.support.deciding import Owner
from tests.support.page import Page
from tests.support.project import Project

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection

PAGE = Page("docs/recipes.md")
FILES = dict(block.removeprefix("# ").split("\n", 1) for block in PAGE.blocks("python"))
LINES = [line for block in PAGE.commands() for line in block if line.startswith("cqrs ")]


@pytest.mark.parametrize("line", LINES)
def test_every_command_is_understood(line: str) -> None:
    assert isinstance(main.parse(shlex.split(line)[1:]), Call)


def test_there_are_ten() -> None:
    assert [line.split(".")[0] for line in PAGE.text.splitlines() if line.startswith("## ")] == [
        f"## {number}" for number in range(1, 11)
    ]


def test_the_recipes_tests_pass(tmp_path: Path) -> None:
    scaffold.create(tmp_path)
    for name, text in FILES.items():
        if "/" in name:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).with_name("__init__.py").touch()
            (tmp_path / name).write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 passed" in done.stdout


def imported(folder: Path) -> str:
    """What the importing program prints of two rows."""
    with sqlite3.connect(folder / "old.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS accounts (account, owner, balance)")
        db.executemany("INSERT INTO accounts VALUES (?, ?, ?)", [("a-1", "Ada", 70), ("b-2", "Bob", 30)])
    return subprocess.check_output([sys.executable, "-c", FILES["import_accounts.py"]], cwd=folder, text=True)


@pytest.mark.kafka
def test_imports_can_be_repeated(project: Project, connection: "Connection", prefix: str) -> None:
    (project.folder / "commands.ndjson").write_text(imported(project.folder))
    project.cqrs("init", "bank_account", "-q")
    for _ in range(2):
        project.cqrs("send", "--file", "commands.ndjson", "-q")
    owner = Owner(
        connection, Topics("bank_account", prefix), registry.load("bank_account", "aggregates", ROOT)
    )
    owner.decide()
    states = {id: (folded.version, folded.state.balance) for id, folded in owner.states.items()}  # type: ignore[attr-defined]
    assert states == {"a-1": (2, 70), "b-2": (2, 30)}


def routed(row: dict[str, str]) -> Record:
    """The record that the settings make of a row, by the documentation of the router and of InsertHeader."""
    settings = parse_properties(PAGE.blocks("properties")[0])
    placed = settings["transforms.outbox.table.fields.additional.placement"].split(",")
    headers: list[tuple[str, bytes | None]]
    headers = [(header, row[column].encode()) for column, _, header in (one.split(":") for one in placed)]
    for name in settings["transforms"].split(",")[1:]:
        at = f"transforms.{name}"
        headers.append((settings[f"{at}.header"], settings[f"{at}.value.literal"].encode()))
    return Record(0, 0, row["aggregateid"].encode(), row["payload"].encode(), headers)


def test_outbox_rows_become_commands() -> None:
    row = {
        "id": "0198f2c4-7c1e",
        "type": "bank_account.Deposit",
        "aggregateid": "a-1",
        "payload": '{"amount":5}',
    }
    command = read_command(routed(row))
    assert isinstance(command, CommandEnvelope)
    assert (command.id, command.type, command.subject) == (row["id"], row["type"], "a-1")
    assert (command.source, json.loads(bytes(command.data))) == ("/webshop", {"amount": 5})


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_the_notebook_counts_events(project: Project, connection: "Connection", prefix: str) -> None:
    (project.folder / "commands.ndjson").write_text(imported(project.folder))
    project.cqrs("init", "bank_account", "-q")
    project.cqrs("send", "--file", "commands.ndjson", "-q")
    project.cqrs("run", "--once", "bank_account", "-q")
    environment = {"CQRS_BOOTSTRAP_SERVER": connection.bootstrap_server, "CQRS_TOPIC_PREFIX": prefix}
    program = [sys.executable, "-c", FILES["notebook.py"]]
    said = subprocess.check_output(program, cwd=project.folder, env=os.environ | environment, text=True)
    assert [line.split()[1:] for line in said.splitlines()[1:]] == [
        ["bank_account.Deposited", "2"],
        ["bank_account.Opened", "2"],
    ]
