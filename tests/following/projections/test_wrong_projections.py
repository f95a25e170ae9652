"""Faults of a projection, its tables or its events are reported with the event."""

from sqlalchemy import Connection

from cqrs_cli.errors import ContradictionError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.feeding import (
    Events,
    errors,
    plan,
    positions,
    projected,
    random_log,
    recent_orders,
    source,
    take,
    with_project,
)


def test_other_events_move_the_position(file: DatabaseAddress) -> None:
    logs, loaded = {source(0): random_log(0, 50)}, recent_orders()
    made = plan(logs, file)
    take(made, loaded)
    given: list[str] = []

    def project(db: Connection, events: Events) -> None:
        given.extend(type(event.event).__name__ for event in events)

    assert errors(projected(made, logs, with_project(loaded, project))) == []
    assert set(given) == {"Placed", "Shipped", "Cancelled", "Deleted"}
    assert positions(file) == {0: logs[source(0)][-1].offset + 1}


def test_unreadable_records_are_named(file: DatabaseAddress) -> None:
    log = random_log(0, 10)
    log[5] = type(log[5])(log[5].offset, 0, b"k", b"?")
    logs, loaded = {source(0): log}, recent_orders()
    made = plan(logs, file)
    take(made, loaded)
    (result,) = projected(made, logs, loaded)
    assert isinstance(result.error, ContradictionError)
    assert f"order.events partition 0 offset {log[5].offset}: " in str(result.error)
