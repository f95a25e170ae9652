"""A database that accepts no writes for a moment is waited for, and the event is not blamed."""

import sqlite3
from contextlib import closing

import psycopg.errors
import pymysql.err
import pytest

from cqrs_cli.following.projections.databases.mariadb import MariaDb
from cqrs_cli.following.projections.databases.postgresql import Postgres
from cqrs_cli.following.projections.databases.sqlite import Sqlite


@pytest.mark.parametrize(
    "setting", ["PRAGMA query_only = ON", "PRAGMA max_page_count = 2"], ids=["read-only", "full"]
)
def test_sqlite_file_without_writes(setting: str) -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute("CREATE TABLE t (x)")
        db.execute(setting)
        with pytest.raises(sqlite3.OperationalError) as refused:
            db.execute("INSERT INTO t VALUES (zeroblob(100000))")
    assert Sqlite().retry_policy(refused.value) == "wait"


def test_sqlite_statement_that_is_wrong() -> None:
    with closing(sqlite3.connect(":memory:")) as db, pytest.raises(sqlite3.OperationalError) as wrong:
        db.execute("INSERT INTO nowhere VALUES (1)")
    assert Sqlite().retry_policy(wrong.value) == "none"


@pytest.mark.parametrize(
    ("state", "policy"), [("25006", "wait"), ("53100", "wait"), ("58030", "wait"), ("22003", "none")]
)
def test_postgresql_states(state: str, policy: str) -> None:
    assert Postgres().retry_policy(psycopg.errors.lookup(state)()) == policy


@pytest.mark.parametrize(("code", "policy"), [(1290, "wait"), (1836, "wait"), (1021, "wait"), (1054, "none")])
def test_mariadb_codes(code: int, policy: str) -> None:
    assert MariaDb().retry_policy(pymysql.err.OperationalError(code, "refused")) == policy
