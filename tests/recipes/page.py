"""docs/recipes.md, and somebody who does what it says."""

import os
import shlex
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.support.page import Page, essence, typed
from tests.support.project import Project

PAGE = Page("docs/recipes.md")
FILES = dict(block.removeprefix("# ").split("\n", 1) for block in PAGE.blocks("python"))


def shown(number: int) -> list[tuple[str, str]]:
    """The commands of a recipe, each with what it prints; nothing where that does not matter."""
    recipe = PAGE.text.partition(f"\n## {number}. ")[2].partition("\n## ")[0]
    return [line for block in recipe.split("```console\n")[1:] for line in typed(block.partition("```")[0])]


def type_line(project: Project, line: str, printed: str) -> None:
    """The line must succeed, and print what is shown, if anything is."""
    program, *arguments = shlex.split(line)
    call = [sys.executable, "-m", "cqrs_cli"] if program == "cqrs" else [program]
    done = subprocess.run(
        [*call, *arguments],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, (line, done.stdout, done.stderr)
    if printed:
        assert _words(done.stdout.replace(project.prefix, "")) == _words(printed), line


def _words(printed: str) -> list[list[str]]:
    return [words for words in essence(printed) if words]


def imported(folder: Path) -> str:
    """The words of the importing program about two rows."""
    with sqlite3.connect(folder / "old.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS accounts (account, owner, balance)")
        db.executemany("INSERT INTO accounts VALUES (?, ?, ?)", [("a-1", "Ada", 70), ("b-2", "Bob", 30)])
    return subprocess.check_output([sys.executable, "-c", FILES["import_accounts.py"]], cwd=folder, text=True)


def open_accounts(project: Project) -> Project:
    """The project with bank accounts alone, the two of them opened and decided."""
    for other in (project.folder / "aggregates").glob("*.py"):
        if other.stem not in ("__init__", "bank_account"):
            other.unlink()
    (project.folder / "commands.ndjson").write_text(imported(project.folder))
    for line in ("cqrs init", "cqrs send --file commands.ndjson", "cqrs run --once"):
        type_line(project, line, "")
    return project


def on_its_own_broker(project: Project) -> Project:
    """The project, with an embedded Kafka that nobody else has."""
    names = ("CQRS_BOOTSTRAP_SERVER", "CQRS_TOPIC_PREFIX")
    project.environment = {name: text for name, text in os.environ.items() if name not in names}
    return project
