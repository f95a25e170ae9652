"""docs/recipes.md, and functions that execute its instructions."""

import os
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.support.page import Page, stable_words, typed_commands
from tests.support.project import Project

PAGE = Page("docs/recipes.md")
FILES = dict(block.removeprefix("# ").split("\n", 1) for block in PAGE.blocks("python"))


def recipe_commands(number: int) -> list[tuple[str, str]]:
    """Return the commands of a recipe, each with its printed output; an empty output matches anything."""
    recipe = PAGE.text.partition(f"\n## {number}. ")[2].partition("\n## ")[0]
    return [
        line
        for block in recipe.split("```console\n")[1:]
        for line in typed_commands(block.partition("```")[0])
    ]


def run_line(project: Project, line: str, expected_output: str) -> None:
    """Run a line, which must succeed and print the shown output, if any."""
    program, *arguments = shlex.split(line)
    command = [sys.executable, "-m", "cqrs_cli"] if program == "cqrs" else [program]
    process = subprocess.run(
        [*command, *arguments],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert process.returncode == 0, (line, process.stdout, process.stderr)
    if expected_output:
        assert _words(process.stdout.replace(project.prefix, "")) == _words(expected_output), line


def _words(output: str) -> list[list[str]]:
    return [words for words in stable_words(output) if words]


def run_import(folder: Path) -> str:
    """Return the output of the importing program for two rows."""
    with sqlite3.connect(folder / "old.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS accounts (account, owner, balance)")
        db.executemany("INSERT INTO accounts VALUES (?, ?, ?)", [("a-1", "Ada", 70), ("b-2", "Bob", 30)])
    return subprocess.check_output([sys.executable, "-c", FILES["import_accounts.py"]], cwd=folder, text=True)


def send_accounts(project: Project) -> None:
    """Reduce the project to bank accounts, and send the commands that open two of them."""
    for other in (project.folder / "aggregates").glob("*.py"):
        if other.stem not in ("__init__", "bank_account"):
            other.unlink()
    (project.folder / "commands.ndjson").write_text(run_import(project.folder))
    for line in ("cqrs init", "cqrs send --file commands.ndjson"):
        run_line(project, line, "")


def open_accounts(project: Project) -> None:
    """Reduce the project to bank accounts, two of which are opened."""
    send_accounts(project)
    run_line(project, "cqrs run --once", "")


def with_embedded_broker(project: Project) -> Project:
    """Return the project with an embedded Kafka of its own."""
    names = ("CQRS_BOOTSTRAP_SERVER", "CQRS_TOPIC_PREFIX")
    project.environment = {name: text for name, text in os.environ.items() if name not in names}
    return project
