"""Faults that end a transaction in MariaDB, or hide its result: rows and position still agree."""

import socket
import threading
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import OperationalError

from cqrs_cli.following.projections.databases import mariadb_session
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.failures import retry_policy
from cqrs_cli.kafka.event_tail import EventPartition
from tests.following.projections.projector_harness import (
    Events,
    ListTail,
    error_texts,
    event_partition,
    expected_tables,
    make_plan,
    next_offsets,
    open_engine,
    random_log,
    read_tables,
    recent_orders,
    run_projectors,
    take_over,
    with_project_function,
)
from tests.support.mariadb import MariaDb

pytestmark = pytest.mark.database

pymysql = pytest.importorskip("pymysql", reason="needs the extra `projections`")


@pytest.mark.covers("projected-once")
@pytest.mark.parametrize("dies", [False, True])
def test_lost_commit_replies_repeat_no_event(
    mariadb_server: MariaDb, mariadb_database: DatabaseAddress, dies: bool
) -> None:
    """No event is repeated if the connection breaks after COMMIT, or the server is killed right after COMMIT."""
    logs, loaded = {event_partition(0): random_log(0, 60)}, recent_orders()
    plan = make_plan(logs, mariadb_database)
    take_over(plan, loaded)
    lost: list[int] = []

    def lose(db: Connection) -> None:
        """Break the connection before SQLAlchemy commits."""
        if len(lost) == 3:
            return
        lost.append(1)
        connection: Any = db.connection.dbapi_connection
        if dies:
            connection._execute_command(pymysql.constants.COMMAND.COM_QUERY, "COMMIT")
            mariadb_server.kill()
            mariadb_server.start()
        else:
            connection.commit()
            connection._sock.shutdown(socket.SHUT_RDWR)

    event.listen(Engine, "commit", lose)
    try:
        assert error_texts(run_projectors(plan, logs, loaded)) == []
    finally:
        event.remove(Engine, "commit", lose)
    assert len(lost) == 3
    assert read_tables(mariadb_database) == expected_tables(logs)


def test_server_lost_while_connecting_is_awaited(
    mariadb_server: MariaDb, mariadb_database: DatabaseAddress
) -> None:
    """The connection is lost during SQLAlchemy's first queries, before it is in the pool."""
    with open_engine(mariadb_database) as engine:

        @event.listens_for(engine, "do_connect")
        def doomed(_dialect: object, _record: object, _place: list[Any], words: dict[str, Any]) -> None:
            def execute(self: Any, query: str, arguments: Any = None) -> Any:
                if "lower_case_table_names" in query:
                    mariadb_server.execute(f"KILL {self.connection.thread_id()}")
                return usual.execute(self, query, arguments)

            usual = words["cursorclass"]
            words["cursorclass"] = type("Doomed", (usual,), {"execute": execute})

        with pytest.raises(OperationalError) as lost:
            engine.connect()
    assert retry_policy(lost.value) == "wait"


@pytest.mark.covers("projected-once")
def test_swallowed_deadlocks_are_retried(mariadb_database: DatabaseAddress) -> None:
    """A batch is repeated if the server rolled it back and the projection has swallowed the error."""
    logs, loaded = {event_partition(0): random_log(0, 60)}, recent_orders()
    plan = make_plan(logs, mariadb_database)
    take_over(plan, loaded)
    swallowed: list[str] = []

    with open_engine(mariadb_database) as engine:
        with engine.begin() as db:
            db.execute(text("CREATE TABLE other (id INT PRIMARY KEY)"))
            db.execute(text("INSERT INTO customers VALUES ('x', 0), ('y', 0)"))
        other = engine.connect()

        def project(db: Connection, events: Events) -> None:
            if not swallowed:
                # MariaDB ends the transaction with fewer rows.
                other.execute(text("INSERT INTO other SELECT seq FROM seq_1_to_5000"))
                other.execute(text("UPDATE customers SET orders = 1 WHERE customer = 'y'"))
                db.execute(text("UPDATE customers SET orders = 1 WHERE customer = 'x'"))
                takes = "UPDATE customers SET orders = 2 WHERE customer = 'x'"
                thread = threading.Thread(target=lambda: other.execute(text(takes)))
                thread.start()
                try:
                    db.execute(text("UPDATE customers SET orders = 2 WHERE customer = 'y'"))
                except OperationalError as error:
                    swallowed.append(str(error))
                thread.join()
                other.rollback()
            loaded.projection.project(db, events)

        assert error_texts(run_projectors(plan, logs, with_project_function(loaded, project))) == []
        other.close()
        with engine.begin() as db:
            db.execute(text("DELETE FROM customers WHERE customer IN ('x', 'y')"))
    assert "Deadlock found" in swallowed[0]
    assert read_tables(mariadb_database) == expected_tables(logs)


def test_locked_rows_are_waited_for(mariadb_database: DatabaseAddress) -> None:
    """Another program holds a row for longer than a batch waits."""
    mariadb_database = mariadb_database._replace(lock_timeout=1)
    logs, loaded = {event_partition(0): random_log(0, 20)}, recent_orders()
    plan = make_plan(logs, mariadb_database)
    take_over(plan, loaded)
    with open_engine(mariadb_database) as engine:
        with engine.begin() as db:
            db.execute(text("INSERT INTO customers VALUES ('c0', 0)"))
        holder = engine.connect()
        holder.execute(text("UPDATE customers SET orders = 9"))
        tries: list[int] = []

        def tail(partition: EventPartition, start: int) -> ListTail:
            tries.append(start)
            if len(tries) == 3:
                holder.rollback()
                holder.close()
            return ListTail(logs[partition], start, 100)

        assert error_texts(run_projectors(plan, logs, loaded, tail=tail)) == []
    assert len(tries) >= 3
    assert read_tables(mariadb_database) == expected_tables(logs)


@pytest.mark.covers("projected-once")
def test_statements_that_commit_are_refused(mariadb_database: DatabaseAddress) -> None:
    logs, loaded = {event_partition(0): random_log(0, 20)}, recent_orders()
    plan = make_plan(logs, mariadb_database)
    take_over(plan, loaded)

    def project(db: Connection, events: Events) -> None:
        loaded.projection.project(db, events)
        db.execute(text("TRUNCATE TABLE customers"))

    (error,) = error_texts(run_projectors(plan, logs, with_project_function(loaded, project)))
    assert "TRUNCATE TABLE ends the transaction in MariaDB" in error
    assert read_tables(mariadb_database) == ({}, {})
    assert next_offsets(mariadb_database) == {0: 0}


@pytest.mark.parametrize(
    ("statement", "commits"),
    [
        ("create table x (a int)", True),
        ("CREATE OR REPLACE TABLE x (a int)", True),
        ("CREATE TEMPORARY TABLE x (a int)", False),
        ("CREATE OR REPLACE TEMPORARY TABLE x (a int)", False),
        ("DROP TEMPORARY TABLE x", False),
        ("  drop index x on y", True),
        ("ROLLBACK", True),
        ("ROLLBACK TO SAVEPOINT a", False),
        ("SAVEPOINT a", False),
        ("UPDATE started SET a = 1", False),
        ("REPLACE INTO x VALUES (1)", False),
    ],
)
def test_statements_that_commit_are_known(statement: str, commits: bool) -> None:
    assert mariadb_session.commits_implicitly(statement) is commits
