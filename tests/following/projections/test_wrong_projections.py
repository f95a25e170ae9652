"""What a projection, its tables or its events can have wrong is named, with the event."""

import pytest
from sqlalchemy import Connection, text

from cqrs_cli.errors import ConfigurationError, ContradictionError
from cqrs_cli.following.projections.plan import DatabasePlace
from tests.following.projections.feeding import (
    Events,
    errors,
    model,
    opened,
    plan,
    positions,
    projected,
    random_log,
    recent_orders,
    source,
    take,
    told,
    with_project,
)


@pytest.mark.pins("projected-once")
def test_raising_event_is_named(place: DatabasePlace) -> None:
    """All before it is written, and nothing of it: not even what the projection wrote before it raised."""
    logs, loaded = {source(0): random_log(0, 60)}, recent_orders()
    made = plan(logs, place)
    take(made, loaded)
    bad = logs[source(0)][33]

    def project(db: Connection, events: Events) -> None:
        loaded.projection.project(db, events)
        if any(event.offset == bad.offset for event in events):
            raise KeyError("price")

    (said,) = errors(
        projected(made, logs, with_project(loaded, project, metadata=loaded.projection.metadata))
    )
    assert f"order.events:0@{bad.offset}" in said
    assert "KeyError: 'price'" in said
    before = {source(0): [one for one in logs[source(0)] if one.offset < bad.offset]}
    assert told(place) == model(before)
    assert positions(place)[0] <= bad.offset


def test_databases_errors_name_the_event(place: DatabasePlace) -> None:
    logs, loaded = {source(0): random_log(0, 20)}, recent_orders()
    made = plan(logs, place)
    take(made, loaded)

    def project(db: Connection, events: Events) -> None:
        db.execute(text("INSERT INTO customers (customer, orders) VALUES ('x', NULL)"))

    (said,) = errors(projected(made, logs, with_project(loaded, project)))
    assert "raised on order." in said
    assert "IntegrityError" in said
    assert "INSERT" not in said


@pytest.mark.pins("projected-once")
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_transactions_cannot_be_ended(place: DatabasePlace, ending: str) -> None:
    """A projection that commits would part rows and position."""
    logs, loaded = {source(0): random_log(0, 20)}, recent_orders()
    made = plan(logs, place)
    take(made, loaded)

    def project(db: Connection, events: Events) -> None:
        loaded.projection.project(db, events)
        getattr(db, ending)()

    (said,) = errors(projected(made, logs, with_project(loaded, project)))
    assert "a projection neither commits nor rolls back" in said
    assert told(place) == ({}, {})
    assert positions(place) == {0: 0}


def test_changed_tables_are_named(place: DatabasePlace) -> None:
    logs, loaded = {source(0): random_log(0, 20)}, recent_orders()
    made = plan(logs, place)
    take(made, loaded)
    with opened(place) as engine, engine.begin() as db:
        db.execute(text("ALTER TABLE customers RENAME COLUMN orders TO number"))
    (result,) = projected(made, logs, loaded)
    assert isinstance(result.error, ConfigurationError)
    assert "somebody changed table customers: it has no column 'orders'" in str(result.error)


def test_other_events_move_the_position(file: DatabasePlace) -> None:
    logs, loaded = {source(0): random_log(0, 50)}, recent_orders()
    made = plan(logs, file)
    take(made, loaded)
    given: list[str] = []

    def project(db: Connection, events: Events) -> None:
        given.extend(type(event.event).__name__ for event in events)

    assert errors(projected(made, logs, with_project(loaded, project))) == []
    assert set(given) == {"Placed", "Shipped", "Cancelled", "Deleted"}
    assert positions(file) == {0: logs[source(0)][-1].offset + 1}


def test_unreadable_records_are_named(file: DatabasePlace) -> None:
    log = random_log(0, 10)
    log[5] = type(log[5])(log[5].offset, 0, b"k", b"?")
    logs, loaded = {source(0): log}, recent_orders()
    made = plan(logs, file)
    take(made, loaded)
    (result,) = projected(made, logs, loaded)
    assert isinstance(result.error, ContradictionError)
    assert f"order.events:0@{log[5].offset}: " in str(result.error)
