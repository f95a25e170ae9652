"""Every example and table of docs/projections.md is correct."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from aggregates.bank_account import Deposited, Opened, Withdrawn
from cqrs_cli.cli.context import Call
from cqrs_cli.cli.main import parse
from cqrs_cli.core.messages.record import Record
from cqrs_cli.following.plan import EventsTopic
from cqrs_cli.following.projections.database import parse_database
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.load import load_projection
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.keyspace.key_space import KeySpace
from tests.following.projections.projector_harness import (
    error_texts,
    event_record,
    query_rows,
    run_projectors,
    take_over,
)
from tests.support import ROOT
from tests.support.user_code import write_projection

TEXT = (ROOT / "docs/projections.md").read_text(encoding="utf-8")
PROJECTION, TEST, READ = re.findall(r"^```python\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
(CONSOLE,) = re.findall(r"^```console\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


@pytest.mark.program
def test_documented_projection_works(tmp_path: Path) -> None:
    write_projection(tmp_path, PROJECTION, "balances")
    loaded = load_projection("balances", tmp_path, "aggregates")
    events = [Opened("ann"), Deposited(100), Withdrawn(30)]
    log = [
        as_bank_record(event_record(version, "a", version, event)) for version, event in enumerate(events, 1)
    ]
    database = parse_database("sqlite:///projections.db", tmp_path)
    partition = EventPartition("bank_account", "bank_account.events", 0)
    plan = ProjectionPlan(
        Connection("h:1"),
        "aggregates",
        tmp_path,
        "murmur2",
        {partition.topic: EventsTopic("id", 1, KeySpace.fixed(1, "murmur2"))},
        "balances",
        [partition],
        database,
        "me",
        {partition: 4},
    )
    take_over(plan, loaded)
    assert error_texts(run_projectors(plan, {partition: log}, loaded)) == []
    assert query_rows(database, "SELECT * FROM accounts") == [("a", "ann", 70)]
    subprocess.run([sys.executable, "-c", TEST], cwd=tmp_path, check=True)
    program = READ.replace("import cqrs_cli as cqrs\n", FAKED)
    subprocess.run(
        [sys.executable, "-c", f"{program}\nassert rows == [('a', 70)]; engine.dispose()"],
        cwd=tmp_path,
        check=True,
    )


#: A client whose requests are answered.
FAKED = """
import types
class Client:
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def send(self, *_): return types.SimpleNamespace(wait=lambda: "outcome")
    def recorded(self, outcome): return 0, 3
cqrs = types.SimpleNamespace(Client=Client)
"""


def as_bank_record(record: Record) -> Record:
    """Return the record as a record of the other aggregate."""
    value = (record.value or b"").replace(b'"order.', b'"bank_account.')
    return Record(record.offset, record.timestamp, record.key, value)


@pytest.mark.parametrize("line", CONSOLE.splitlines())
def test_documented_commands_are_valid(line: str) -> None:
    assert isinstance(parse(shlex.split(line.removeprefix("$ "))[1:]), Call)


def test_documented_files_and_tables_exist(tmp_path: Path) -> None:
    from cqrs_cli.following.projections.databases.control import CONTROL
    from cqrs_cli.following.projections.databases.known import dialect_of

    def shadow_address(url: str) -> DatabaseAddress:
        database = parse_database(url, tmp_path)
        return dialect_of(database).shadow_address(database, "n")

    assert all(f"`{table}`" in TEXT for table in CONTROL.tables)
    assert shadow_address("sqlite:///f.db").url.endswith("/f.db-n-new")
    assert shadow_address("postgresql://h/d").schema == "cqrs_new_n"
    assert shadow_address("mariadb://h/d").schema == "d-n-new"
    assert "`<file>-<name>-new`" in TEXT
    assert "`<database>-<name>-new`" in TEXT
    assert "`cqrs_new_<name>`" in TEXT
