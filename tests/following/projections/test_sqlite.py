"""SQLite."""

import pytest
from sqlalchemy import text

from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.kafka.event_tail import EventPartition
from tests.following.projections.contract import DatabaseContract
from tests.following.projections.projector_harness import (
    ListTail,
    error_texts,
    event_partition,
    expected_tables,
    make_plan,
    open_engine,
    random_log,
    read_tables,
    recent_orders,
    run_projectors,
    take_over,
)


class TestSqlite(DatabaseContract):
    @pytest.fixture
    def database(self, sqlite_database: DatabaseAddress) -> DatabaseAddress:
        return sqlite_database


def test_busy_databases_are_waited_for(sqlite_database: DatabaseAddress) -> None:
    """Another program holds SQLite's write lock for longer than a batch waits."""
    sqlite_database = sqlite_database._replace(lock_timeout=0.01)
    logs, loaded = {event_partition(0): random_log(0, 20)}, recent_orders()
    plan = make_plan(logs, sqlite_database)
    take_over(plan, loaded)
    with open_engine(sqlite_database) as engine:
        holder = engine.connect()
        holder.execute(text("UPDATE customers SET orders = 0"))
        tries: list[int] = []

        def tail(partition: EventPartition, start: int) -> ListTail:
            tries.append(start)
            if len(tries) == 3:
                holder.rollback()
                holder.close()
            return ListTail(logs[partition], start, 100)

        assert error_texts(run_projectors(plan, logs, loaded, tail=tail)) == []
    assert len(tries) >= 3
    assert read_tables(sqlite_database) == expected_tables(logs)
