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
    errors,
    expected_tables,
    make_plan,
    next_offsets,
    open_engine,
    random_log,
    read_tables,
    recent_orders,
    run_projectors,
    source,
    take_over,
    with_project_function,
)
from tests.support.mariadb import MariaDb

pytestmark = pytest.mark.database

pymysql = pytest.importorskip("pymysql", reason="needs the extra `projections`")


@pytest.mark.covers("projected-once")
@pytest.mark.parametrize("dies", [False, True])
def test_lost_replies_to_commits_repeat_nothing(
    maria_server: MariaDb, maria: DatabaseAddress, dies: bool
) -> None:
    """No event is repeated if the connection breaks after COMMIT, or the server is killed right after COMMIT."""
    logs, loaded = {source(0): random_log(0, 60)}, recent_orders()
    plan = make_plan(logs, maria)
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
            maria_server.kill()
            maria_server.start()
        else:
            connection.commit()
            connection._sock.shutdown(socket.SHUT_RDWR)

    event.listen(Engine, "commit", lose)
    try:
        assert errors(run_projectors(plan, logs, loaded)) == []
    finally:
        event.remove(Engine, "commit", lose)
    assert len(lost) == 3
    assert read_tables(maria) == expected_tables(logs)


def test_server_lost_while_connecting_is_awaited(maria_server: MariaDb, maria: DatabaseAddress) -> None:
    """The connection is lost during SQLAlchemy's first queries, before it is in the pool."""
    with open_engine(maria) as engine:

        @event.listens_for(engine, "do_connect")
        def doomed(_dialect: object, _record: object, _place: list[Any], words: dict[str, Any]) -> None:
            def execute(self: Any, query: str, given: Any = None) -> Any:
                if "lower_case_table_names" in query:
                    maria_server.execute(f"KILL {self.connection.thread_id()}")
                return usual.execute(self, query, given)

            usual = words["cursorclass"]
            words["cursorclass"] = type("Doomed", (usual,), {"execute": execute})

        with pytest.raises(OperationalError) as lost:
            engine.connect()
    assert retry_policy(lost.value) == "wait"


@pytest.mark.covers("projected-once")
def test_swallowed_deadlocks_are_done_again(maria: DatabaseAddress) -> None:
    """A batch is repeated if the server rolled it back and the projection has swallowed the error."""
    logs, loaded = {source(0): random_log(0, 60)}, recent_orders()
    plan = make_plan(logs, maria)
    take_over(plan, loaded)
    swallowed: list[str] = []

    with open_engine(maria) as engine:
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

        assert errors(run_projectors(plan, logs, with_project_function(loaded, project))) == []
        other.close()
        with engine.begin() as db:
            db.execute(text("DELETE FROM customers WHERE customer IN ('x', 'y')"))
    assert "Deadlock found" in swallowed[0]
    assert read_tables(maria) == expected_tables(logs)


def test_held_rows_are_waited_for(maria: DatabaseAddress) -> None:
    """Another program holds a row for longer than a batch waits."""
    maria = maria._replace(lock_timeout=1)
    logs, loaded = {source(0): random_log(0, 20)}, recent_orders()
    plan = make_plan(logs, maria)
    take_over(plan, loaded)
    with open_engine(maria) as engine:
        with engine.begin() as db:
            db.execute(text("INSERT INTO customers VALUES ('c0', 0)"))
        holder = engine.connect()
        holder.execute(text("UPDATE customers SET orders = 9"))
        tries: list[int] = []

        def tail(one: EventPartition, start: int) -> ListTail:
            tries.append(start)
            if len(tries) == 3:
                holder.rollback()
                holder.close()
            return ListTail(logs[one], start, 100)

        assert errors(run_projectors(plan, logs, loaded, tail=tail)) == []
    assert len(tries) >= 3
    assert read_tables(maria) == expected_tables(logs)


@pytest.mark.covers("projected-once")
def test_statements_that_commit_are_refused(maria: DatabaseAddress) -> None:
    logs, loaded = {source(0): random_log(0, 20)}, recent_orders()
    plan = make_plan(logs, maria)
    take_over(plan, loaded)

    def project(db: Connection, events: Events) -> None:
        loaded.projection.project(db, events)
        db.execute(text("TRUNCATE TABLE customers"))

    (error,) = errors(run_projectors(plan, logs, with_project_function(loaded, project)))
    assert "TRUNCATE TABLE ends the transaction in MariaDB" in error
    assert read_tables(maria) == ({}, {})
    assert next_offsets(maria) == {0: 0}


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
