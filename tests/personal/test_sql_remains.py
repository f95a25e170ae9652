"""`cqrs sql` leaves no readable value on a disk, neither in Spark's log nor in its spill files."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.deciding.customers import PERSONAL_TEXT, customer_topics, register_command
from tests.support import ROOT
from tests.support.owners import run_plan
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

CQRS = str(Path(sys.executable).with_name("cqrs"))


@pytest.fixture
def project(connection: Connection, prefix: str, tmp_path: Path) -> Path:
    """A project with a keyring, in which Ann is registered."""
    people = customer_topics(connection, prefix, tmp_path)
    people.send(register_command("ann"))
    run_plan(people.plan())
    (tmp_path / "people").mkdir()
    code = (ROOT / "tests/core/personal/customer.py").read_text().partition("\nCUSTOMER = ")[0]
    (tmp_path / "people/customer.py").write_text(code)
    settings = {
        "bootstrap_server": connection.bootstrap_server,
        "topic_prefix": prefix,
        "aggregates": "people",
        "keyring": "file:ring.json",
    }
    (tmp_path / "cqrs.toml").write_text(
        "".join(f"{name} = {json.dumps(value)}\n" for name, value in settings.items())
    )
    return tmp_path


def files_containing_value(folder: Path) -> list[Path]:
    """Return the files that contain the value."""
    return [
        file for file in folder.rglob("*") if file.is_file() and PERSONAL_TEXT.encode() in file.read_bytes()
    ]


@contextmanager
def running_query(project: Path, query: str, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [CQRS, "sql", query, *options]
    with subprocess.Popen(
        command, cwd=project, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_log_contains_no_value(project: Path) -> None:
    with running_query(project, "SELECT CAST(name AS INT) FROM customer_Registered") as query:
        output, _ = query.communicate(timeout=300)
    assert "CAST_INVALID_INPUT" in output
    assert (project / ".cqrs/log/sql.log").exists()
    assert files_containing_value(project / ".cqrs") == []


def test_spilled_rows_cannot_be_read(project: Path) -> None:
    """A killed query leaves spill files."""
    grouped_query = "SELECT name, count(*) AS n FROM customer_Registered GROUP BY name"
    slow_query = (
        f"SELECT name, reflect('java.lang.Thread', 'sleep', bigint(n * 60000)) FROM ({grouped_query})"
    )
    spill_folder = project / "local"
    with running_query(project, slow_query, "--conf", f"spark.local.dir={spill_folder}") as query:

        def has_spilled() -> bool:
            assert query.poll() is None, query.stdout and query.stdout.read()
            return any(file.stat().st_size for file in spill_folder.rglob("shuffle_*.data"))

        eventually(has_spilled, 300)
        assert files_containing_value(spill_folder) == []
