"""The commands of docs/recipes.md have the described effect, and print the shown output."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cqrs_cli.errors import TakenOverError
from cqrs_cli.kafka.embedded import broker as embedded
from tests.recipes.page import (
    FILES,
    open_accounts,
    recipe_commands,
    run_line,
    send_accounts,
    with_embedded_broker,
)
from tests.support import ROOT
from tests.support.absent_broker import free_port
from tests.support.owners import run_plan
from tests.support.postgres import binaries, postgres
from tests.support.project import Project
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

#: The rule that recipe 7 changes.
DEPOSIT_RULE = "        case Deposit(amount):\n"
CHANGED_DEPOSIT_RULE = f"""\
        case Deposit(amount) if amount > 50:
            raise cqrs.Rejected("too much at once", code="TOO_MUCH")
{DEPOSIT_RULE}"""


@contextmanager
def running_command(project: Project, line: str) -> Iterator[None]:
    """Run a command while the block lasts. It must run until then, and end at SIGTERM."""
    with project.running(*line.split()[1:]) as process:
        yield
        assert process.poll() is None, process.communicate()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 128 + signal.SIGTERM


def has_begun(url: str) -> bool:
    """True once the projection has its positions."""
    import psycopg

    with psycopg.connect(url) as db:
        (table,) = db.execute("SELECT to_regclass('cqrs_positions')").fetchone() or (None,)
        return table is not None and db.execute("SELECT 1 FROM cqrs_positions").fetchone() is not None


def orders(url: str) -> list[tuple[object, ...]]:
    """Return the rows of the read model."""
    import psycopg

    with psycopg.connect(url) as db:
        return db.execute("SELECT order_id, status FROM recent_orders").fetchall()


@pytest.mark.nightly
@pytest.mark.skipif(binaries() is None, reason="no PostgreSQL here (Debian: apt-get install postgresql)")
def test_rows_reach_postgresql(project: Project) -> None:
    """Recipe 3: the row exists when the sender gets the outcome, and again in the rebuilt tables."""
    pytest.importorskip("psycopg", reason="needs the extra `projections`")
    shutil.copytree(ROOT / "projections", project.folder / "projections")
    project.cqrs("init", "order", "-q")
    with postgres() as server:
        url = server.make_database()
        lines = [
            (line.replace("postgresql://shop@db-1/shop", url), output) for line, output in recipe_commands(3)
        ]
        (project_line, _), (send_line, send_output), (rebuild_line, rebuild_output) = lines
        with running_command(project, "cqrs run order"), running_command(project, project_line):
            eventually(lambda: has_begun(url))
            run_line(project, send_line, send_output)
            assert orders(url) == [("o-7", "placed")]
        run_line(project, rebuild_line, rebuild_output)
        assert orders(url) == [("o-7", "placed")]


@pytest.mark.nightly
def test_changed_rules_take_over(project: Project) -> None:
    """Recipe 7: the previous run ends by itself."""
    open_accounts(project)
    drafts = project.folder / "drafts"
    drafts.mkdir()
    (drafts / "__init__.py").touch()
    rules = (project.folder / "aggregates/bank_account.py").read_text()
    assert rules.count(DEPOSIT_RULE) == 1
    (drafts / "bank_account.py").write_text(rules.replace(DEPOSIT_RULE, CHANGED_DEPOSIT_RULE))
    with project.running("run") as first_run:
        eventually(lambda: "bank_account" in project.cqrs("status"))
        for line, output in recipe_commands(7):
            if line.startswith("cqrs run"):
                line = line.replace("9501", str(free_port()))
                second_run = project.start(*line.split()[1:])
                first_run.communicate(timeout=120)
                assert first_run.returncode == TakenOverError.exit_code
            else:
                run_line(project, line, output)
        second_run.send_signal(signal.SIGTERM)
        second_run.communicate(timeout=60)


def test_a_lost_disk_is_restored(project: Project) -> None:
    """Recipe 8 restores from a backup."""
    open_accounts(with_embedded_broker(project))
    try:
        for line, output in recipe_commands(8):
            run_line(project, line, output)
    finally:
        embedded.stop_broker(project.folder)


@pytest.mark.nightly
def test_the_notebook_counts_events(project: Project) -> None:
    """Recipe 9 counts events in a notebook."""
    open_accounts(project)
    program = [sys.executable, "-c", FILES["notebook.py"]]
    output = subprocess.check_output(program, cwd=project.folder, env=project.environment, text=True)
    assert [line.split()[1:] for line in output.splitlines()[1:]] == [
        ["bank_account.Deposited", "2"],
        ["bank_account.Opened", "2"],
    ]


@pytest.mark.nightly
def test_reports_equal_the_page(project: Project) -> None:
    """Recipe 10 prints the shown reports. In CI, `test_command_answers_several_queries` runs `cqrs sql`."""
    send_accounts(project)
    run_plan(project.harness(partitions=4).plan(machine=".cqrs/state"))
    for line, output in recipe_commands(10):
        run_line(project, line, output)
