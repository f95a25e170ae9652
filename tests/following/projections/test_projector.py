from dataclasses import replace

from cqrs_cli.errors import ContradictionError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.projector_harness import (
    event_partition,
    expected_tables,
    make_plan,
    random_log,
    read_tables,
    recent_orders,
    run_projectors,
    take_over,
)


def test_going_on_repeats_nothing(sqlite_database: DatabaseAddress) -> None:
    logs = {event_partition(0): random_log(0, 100)}
    loaded, plan = recent_orders(), make_plan(logs, sqlite_database)
    take_over(plan, loaded)
    half = {event_partition(0): logs[event_partition(0)][:50]}
    run_projectors(make_plan(half, sqlite_database), half, loaded)
    results = run_projectors(plan, logs, loaded)
    assert read_tables(sqlite_database) == expected_tables(logs)
    assert sum(result.events for result in results) < 60


def test_topics_made_again_are_noticed(sqlite_database: DatabaseAddress) -> None:
    logs = {event_partition(0): random_log(0, 10)}
    loaded, plan = recent_orders(), make_plan(logs, sqlite_database)
    take_over(plan, loaded)
    recreated_plan = replace(plan, topic_ids={"order.events": "id-2"})
    (result,) = run_projectors(recreated_plan, logs, loaded)
    assert isinstance(result.error, ContradictionError)
    assert "cqrs project recent_orders --rebuild" in str(result.error)
    assert read_tables(sqlite_database) == ({}, {})
