"""DuckDB: only one process at a time can open its file, so writers and readers take turns."""

import subprocess
import sys

import pytest

from cqrs_cli.following.projections.databases import duckdb
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.contract import DatabaseContract
from tests.following.projections.projector_harness import (
    error_texts,
    event_partition,
    expected_tables,
    make_plan,
    next_offsets,
    random_log,
    read_tables,
    recent_orders,
    run_projectors,
    take_over,
)
from tests.support import ROOT

pytestmark = pytest.mark.database

HOLD_PROGRAM = """
import sys, duckdb
db = duckdb.connect(sys.argv[1].removeprefix("duckdb:///"), read_only=True)
print("holds", flush=True)
sys.stdin.read()
"""

PROJECT_PROGRAM = """
import sys
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.projector_harness import *
logs = {event_partition(partition): random_log(partition, 20) for partition in map(int, sys.argv[2].split(","))}
plan = make_plan(logs, DatabaseAddress(sys.argv[1]))
sys.exit(bool(error_texts(run_projectors(plan, logs, recent_orders(), batch=1))))
"""


class TestDuckDb(DatabaseContract):
    count = 15
    meanwhile = "begins"

    @pytest.fixture
    def database(self, duckdb_database: DatabaseAddress) -> DatabaseAddress:
        return duckdb_database


class EndingNotes(list[str]):
    """A list of notes. The first note ends a program."""

    def __init__(self, program: "subprocess.Popen[str]") -> None:
        super().__init__()
        self._program = program

    def append(self, text: str) -> None:
        super().append(text)
        self._program.communicate()


def test_lock_holder_is_named(duckdb_database: DatabaseAddress) -> None:
    """An analyst's program only reads, and is waited for."""
    duckdb_database = duckdb_database._replace(lock_timeout=0.1)
    logs, loaded = {event_partition(0): random_log(0, 20)}, recent_orders()
    take_over(make_plan(logs, duckdb_database), loaded)
    with start_program(HOLD_PROGRAM, duckdb_database.url) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "holds\n"
        notes = EndingNotes(holder)
        assert error_texts(run_projectors(make_plan(logs, duckdb_database), logs, loaded, notes=notes)) == []
    assert f"(PID {holder.pid})" in notes[0] and "still trying" in notes[0]
    assert read_tables(duckdb_database) == expected_tables(logs)


@pytest.mark.covers("projected-once")
def test_processes_take_turns(duckdb_database: DatabaseAddress) -> None:
    """Two processes that write different partitions take turns with the file."""
    logs = {event_partition(partition): random_log(partition, 20) for partition in range(2)}
    take_over(make_plan(logs, duckdb_database), recent_orders())
    with (
        start_program(PROJECT_PROGRAM, duckdb_database.url, "0") as first,
        start_program(PROJECT_PROGRAM, duckdb_database.url, "1") as second,
    ):
        assert (first.wait(), second.wait()) == (0, 0)
    assert read_tables(duckdb_database) == expected_tables(logs)


def test_readers_can_open_the_file(duckdb_database: DatabaseAddress) -> None:
    """Another process writes one batch after the other."""
    logs = {event_partition(0): random_log(0, 20)}
    take_over(make_plan(logs, duckdb_database), recent_orders())
    with start_program(PROJECT_PROGRAM, duckdb_database.url, "0") as writer:
        offsets = [next_offsets(duckdb_database)[0] for _ in iter(writer.poll, 0)]
    assert offsets == sorted(offsets) and len(set(offsets)) > 2


def start_program(script: str, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("error", ["Current transaction is aborted", "Duplicate key"])
def test_other_errors_are_not_retried(error: str) -> None:
    assert duckdb.DuckDb().retry_policy(TransactionException(error)) == "none"


def test_conflicts_are_retried() -> None:
    assert duckdb.DuckDb().retry_policy(TransactionException("Conflict on update!")) == "again"


class TransactionException(Exception):
    """An exception with the name of DuckDB's."""
