"""The promises of every database that is a server."""

from typing import Any, Protocol

import pytest
from sqlalchemy import Connection

from cqrs_cli.errors import TakenOverError
from cqrs_cli.following.projections.database import url_without_password
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.known import dialect_of
from tests.following.projections.projector_harness import (
    Events,
    ListTail,
    error_texts,
    event_partition,
    expected_tables,
    make_plan,
    open_engine,
    query_rows,
    random_log,
    read_tables,
    recent_orders,
    run_projectors,
    take_over,
    with_project_function,
)
from tests.following.projections.table_swaps import create_shadow_tables, fill_live_tables, second_revision


class Server(Protocol):
    def kill(self) -> None: ...

    def start(self) -> None: ...


class ServerContract:
    """A subclass has the fixtures `database`, an empty database, and `server`, which can be killed and restarted."""

    @pytest.mark.covers("projected-once")
    @pytest.mark.parametrize("half", [False, True])
    def test_database_away_is_waited_for(self, database: DatabaseAddress, server: Server, half: bool) -> None:
        """A projector waits for a server that was killed before a statement of a batch, or before its commit."""
        logs, loaded, notes = {event_partition(0): random_log(0, 60)}, recent_orders(), list[str]()
        plan = make_plan(logs, database)
        take_over(plan, loaded)
        killed: list[bool] = []

        def project(db: Connection, events: Events) -> None:
            if not half:
                loaded.projection.project(db, events)
            if len(killed) < 2:
                killed.append(True)
                server.kill()
                server.start()
            if half:
                loaded.projection.project(db, events)

        assert (
            error_texts(run_projectors(plan, logs, with_project_function(loaded, project), notes=notes)) == []
        )
        assert read_tables(database) == expected_tables(logs)
        assert f"no answer from {url_without_password(database)}" in notes[0]
        assert "still trying" in notes[0]
        assert query_rows(database, "SELECT owner FROM cqrs_positions") == [("me",)]

    def test_second_rebuild_stops_the_first(self, database: DatabaseAddress) -> None:
        """A second rebuild swapped the tables, or cleared the new tables, while the first rebuild filled them."""
        logs = {event_partition(0): random_log(0, 60)}
        loaded, live = second_revision(), fill_live_tables(database, logs)
        new = create_shadow_tables(live, loaded, "new")

        class Tail(ListTail):
            def poll(self, batch: int) -> Any:
                if self._position > 20:
                    with open_engine(database) as engine, engine.begin() as db:
                        dialect_of(database).drop_schema(db, str(new.database.schema))
                return super().poll(batch)

        (result,) = run_projectors(new, logs, loaded, tail=lambda plan, start: Tail(logs[plan], start, 7))
        assert isinstance(result.error, TakenOverError)
