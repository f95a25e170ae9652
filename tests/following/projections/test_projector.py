from dataclasses import replace

from cqrs_cli.errors import ContradictionError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from tests.following.projections.feeding import (
    model,
    plan,
    projected,
    random_log,
    recent_orders,
    source,
    take,
    told,
)


def test_going_on_repeats_nothing(file: DatabaseAddress) -> None:
    logs = {source(0): random_log(0, 100)}
    loaded, made = recent_orders(), plan(logs, file)
    take(made, loaded)
    half = {source(0): logs[source(0)][:50]}
    projected(plan(half, file), half, loaded)
    results = projected(made, logs, loaded)
    assert told(file) == model(logs)
    assert sum(result.events for result in results) < 60


def test_topics_made_again_are_noticed(file: DatabaseAddress) -> None:
    logs = {source(0): random_log(0, 10)}
    loaded, made = recent_orders(), plan(logs, file)
    take(made, loaded)
    again = replace(made, topic_ids={"order.events": "id-2"})
    (result,) = projected(again, logs, loaded)
    assert isinstance(result.error, ContradictionError)
    assert "cqrs project recent_orders --rebuild" in str(result.error)
    assert told(file) == ({}, {})
