"""SQLite."""

import pytest
from sqlalchemy import text

from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.kafka.event_tail import EventPartition
from tests.following.projections.contract import DatabaseContract
from tests.following.projections.feeding import (
    ListTail,
    errors,
    model,
    opened,
    plan,
    projected,
    random_log,
    recent_orders,
    source,
    take,
    told,
)


class TestSqlite(DatabaseContract):
    @pytest.fixture
    def place(self, file: DatabaseAddress) -> DatabaseAddress:
        return file


def test_busy_databases_are_waited_for(file: DatabaseAddress) -> None:
    """Another program holds SQLite's write lock for longer than a batch waits."""
    file = file._replace(patience=0.01)
    logs, loaded = {source(0): random_log(0, 20)}, recent_orders()
    made = plan(logs, file)
    take(made, loaded)
    with opened(file) as engine:
        holder = engine.connect()
        holder.execute(text("UPDATE customers SET orders = 0"))
        tries: list[int] = []

        def tail(one: EventPartition, start: int) -> ListTail:
            tries.append(start)
            if len(tries) == 3:
                holder.rollback()
                holder.close()
            return ListTail(logs[one], start, 100)

        assert errors(projected(made, logs, loaded, tail=tail)) == []
    assert len(tries) >= 3
    assert told(file) == model(logs)
