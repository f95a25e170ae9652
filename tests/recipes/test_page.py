"""docs/recipes.md: its files pass their tests, its programs run, and its commands are valid."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cqrs_cli import registry, scaffold
from cqrs_cli.cli import main
from cqrs_cli.cli.context import Call
from cqrs_cli.kafka.topics.topics import Topics
from tests.recipes.page import FILES, PAGE, run_import
from tests.support import ROOT
from tests.support.project import Project
from tests.support.simple_owner import SimpleOwner

if TYPE_CHECKING:
    from cqrs_cli.kafka.connection.connection import Connection

LINES = [line for block in PAGE.commands() for line in block if line.startswith("cqrs ")]


@pytest.mark.parametrize("line", LINES)
def test_every_command_is_understood(line: str) -> None:
    assert isinstance(main.parse(shlex.split(line)[1:]), Call)


def test_page_has_ten_recipes() -> None:
    assert [line.split(".")[0] for line in PAGE.text.splitlines() if line.startswith("## ")] == [
        f"## {number}" for number in range(1, 11)
    ]


@pytest.mark.program
def test_the_recipes_tests_pass(tmp_path: Path) -> None:
    scaffold.create(tmp_path)
    for name, text in FILES.items():
        if "/" in name:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).with_name("__init__.py").touch()
            (tmp_path / name).write_text(text)
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q"], cwd=tmp_path, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert "8 passed" in process.stdout


@pytest.mark.kafka
def test_imports_can_be_repeated(project: Project, connection: "Connection", prefix: str) -> None:
    (project.folder / "commands.ndjson").write_text(run_import(project.folder))
    project.cqrs("init", "bank_account", "-q")
    for _ in range(2):
        project.cqrs("send", "--file", "commands.ndjson", "-q")
    owner = SimpleOwner(
        connection, Topics("bank_account", prefix), registry.load("bank_account", "aggregates", ROOT)
    )
    owner.decide()
    states = {id: (versioned.version, versioned.state.balance) for id, versioned in owner.states.items()}  # type: ignore[attr-defined]
    assert states == {"a-1": (2, 70), "b-2": (2, 30)}
