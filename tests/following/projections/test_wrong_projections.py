"""Faults of a projection, its tables or its events are reported with the event."""

from sqlalchemy import Connection

from cqrs_cli.errors import ContradictionError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.projector_harness import (
    Events,
    error_texts,
    event_partition,
    make_plan,
    next_offsets,
    random_log,
    recent_orders,
    run_projectors,
    take_over,
    with_project_function,
)


def test_other_events_move_the_position(sqlite_database: DatabaseAddress) -> None:
    logs, loaded = {event_partition(0): random_log(0, 50)}, recent_orders()
    plan = make_plan(logs, sqlite_database)
    take_over(plan, loaded)
    arguments: list[str] = []

    def project(db: Connection, events: Events) -> None:
        arguments.extend(type(event.event).__name__ for event in events)

    assert error_texts(run_projectors(plan, logs, with_project_function(loaded, project))) == []
    assert set(arguments) == {"Placed", "Shipped", "Cancelled", "Deleted"}
    assert next_offsets(sqlite_database) == {0: logs[event_partition(0)][-1].offset + 1}


def test_unreadable_records_are_named(sqlite_database: DatabaseAddress) -> None:
    log = random_log(0, 10)
    log[5] = type(log[5])(log[5].offset, 0, b"k", b"?")
    logs, loaded = {event_partition(0): log}, recent_orders()
    plan = make_plan(logs, sqlite_database)
    take_over(plan, loaded)
    (result,) = run_projectors(plan, logs, loaded)
    assert isinstance(result.error, ContradictionError)
    assert f"order.events partition 0 offset {log[5].offset}: " in str(result.error)
