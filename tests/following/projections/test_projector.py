from dataclasses import replace

from aggregates.order import Placed
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.stored_errors import StoredError
from tests.following.projections.projector_harness import (
    error_texts,
    event_partition,
    event_record,
    expected_tables,
    make_plan,
    open_engine,
    query_rows,
    random_log,
    read_tables,
    recent_orders,
    run_projectors,
    take_over,
)


def test_later_run_repeats_nothing(sqlite_database: DatabaseAddress) -> None:
    logs = {event_partition(0): random_log(0, 100)}
    loaded, plan = recent_orders(), make_plan(logs, sqlite_database)
    take_over(plan, loaded)
    half = {event_partition(0): logs[event_partition(0)][:50]}
    run_projectors(make_plan(half, sqlite_database), half, loaded)
    results = run_projectors(plan, logs, loaded)
    assert read_tables(sqlite_database) == expected_tables(logs)
    assert sum(result.events for result in results) < 60


def test_recreated_topics_are_noticed(sqlite_database: DatabaseAddress) -> None:
    logs = {event_partition(0): random_log(0, 10)}
    loaded, plan = recent_orders(), make_plan(logs, sqlite_database)
    take_over(plan, loaded)
    recreated_plan = replace(
        plan, events_topics={"order.events": plan.events_topics["order.events"]._replace(topic_id="id-2")}
    )
    (result,) = run_projectors(recreated_plan, logs, loaded)
    assert isinstance(result.error, ContradictionError)
    assert "cqrs project recent_orders --rebuild" in str(result.error)
    assert read_tables(sqlite_database) == ({}, {})


def test_unstorable_error_ends_the_run(sqlite_database: DatabaseAddress) -> None:
    """SQLite's driver raises `OverflowError` for the event's offset, in the batch and when the error is stored."""
    offset = 2**63
    logs = {event_partition(0): [event_record(offset, "o-1", 1, Placed("ann"))]}
    loaded, plan = recent_orders(), make_plan(logs, sqlite_database)
    take_over(plan, loaded)
    messages: list[str] = []
    (error,) = error_texts(run_projectors(plan, logs, loaded, notes=messages))
    assert f"projection recent_orders raised on order.Placed order.events:0@{offset}" in error
    assert "the database did not store the error: OverflowError" in messages[-1]


def test_end_of_log_deletes_the_error(sqlite_database: DatabaseAddress) -> None:
    """The next run has no new events."""
    logs = {event_partition(0): random_log(0, 10)}
    loaded, plan = recent_orders(), make_plan(logs, sqlite_database)
    take_over(plan, loaded)
    run_projectors(plan, logs, loaded)
    with open_engine(sqlite_database) as engine:
        StoredError(engine, plan, event_partition(0)).store(CqrsError("it raised"), 7)
    assert query_rows(sqlite_database, "SELECT message FROM cqrs_errors") == [("it raised",)]
    assert error_texts(run_projectors(plan, logs, loaded)) == []
    assert query_rows(sqlite_database, "SELECT message FROM cqrs_errors") == []
