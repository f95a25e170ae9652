"""The promises of every database that is a server."""

from typing import Any, Protocol

import pytest
from sqlalchemy import Connection

from cqrs_cli.errors import TakenOverError
from cqrs_cli.following.projections.database import shown
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.known import dialect_of
from tests.following.projections.exchanging import begin_beside, filled, second_revision
from tests.following.projections.feeding import (
    Events,
    ListTail,
    errors,
    model,
    opened,
    plan,
    projected,
    random_log,
    recent_orders,
    rows,
    source,
    take,
    told,
    with_project,
)


class Server(Protocol):
    def kill(self) -> None: ...

    def start(self) -> None: ...


class ServerContract:
    """A subclass has the fixtures `place`, an empty database, and `server`, which can be killed and restarted."""

    @pytest.mark.covers("projected-once")
    @pytest.mark.parametrize("half", [False, True])
    def test_database_away_is_waited_for(self, place: DatabaseAddress, server: Server, half: bool) -> None:
        """A projector waits for a server that was killed before a statement of a batch, or before its commit."""
        logs, loaded, notes = {source(0): random_log(0, 60)}, recent_orders(), list[str]()
        made = plan(logs, place)
        take(made, loaded)
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

        assert errors(projected(made, logs, with_project(loaded, project), notes=notes)) == []
        assert told(place) == model(logs)
        assert f"no answer from {shown(place)}" in notes[0]
        assert "still trying" in notes[0]
        assert rows(place, "SELECT owner FROM cqrs_positions") == [("me",)]

    def test_tables_gone_meanwhile_stop(self, place: DatabaseAddress) -> None:
        """A second rebuild swapped the tables, or cleared the new tables, while the first rebuild filled them."""
        logs = {source(0): random_log(0, 60)}
        loaded, live = second_revision(), filled(place, logs)
        new = begin_beside(live, loaded, "new")

        class Tail(ListTail):
            def poll(self, most: int) -> Any:
                if self._position > 20:
                    with opened(place) as engine, engine.begin() as db:
                        dialect_of(place).drop(db, str(new.place.schema))
                return super().poll(most)

        (result,) = projected(new, logs, loaded, tail=lambda one, start: Tail(logs[one], start, 7))
        assert isinstance(result.error, TakenOverError)
