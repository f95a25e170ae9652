"""Projections of aggregates with personal fields: they get erasures, and their errors contain no value."""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from sqlalchemy import Column, Connection, MetaData, String, Table, delete, insert, text

from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.plan import ProjectorResult
from cqrs_cli.following.projections.projection import Projection
from cqrs_cli.kafka.event_tail import EventPartition
from tests.core.personal.customer import CUSTOMER, Registered
from tests.following.projections.projector_harness import (
    event_record,
    make_plan,
    query_rows,
    run_projectors,
    take_over,
)

METADATA = MetaData()
NAMES = Table("names", METADATA, Column("id", String, primary_key=True), Column("name", String))
SOURCE = EventPartition("customer", "customer.events", 0)
PERSONAL_TEXT = "Nadelheim"

PersonalEvents = Sequence[Recorded[Registered | Erased]]


def store_and_delete_names(db: Connection, events: PersonalEvents) -> None:
    for recorded in events:
        match recorded.event:
            case Registered(name):
                db.execute(insert(NAMES).values(id=recorded.aggregate_id, name=name))
            case Erased():
                db.execute(delete(NAMES).where(NAMES.c.id == recorded.aggregate_id))


def run_projection(
    database: DatabaseAddress, project: Callable[[Connection, PersonalEvents], None], *events: Event
) -> ProjectorResult:
    """Run over these events and return the result.

    `Erased` is for the first customer; the others have one event each.
    """
    ids = [0 if isinstance(event, Erased) else number for number, event in enumerate(events)]
    log = [
        event_record(number, f"c-{ids[number]}", number + 1, event, aggregate="customer")
        for number, event in enumerate(events)
    ]
    logs = {SOURCE: log}
    event_types: frozenset[type[Event]] = frozenset({Registered, Erased})
    loaded = LoadedProjection(
        "names", Projection(project, METADATA), {"customer": CUSTOMER}, event_types, ("*",)
    )
    plan = make_plan(logs, database, name="names")
    plan = replace(plan, events_topics=dict.fromkeys([SOURCE.topic], *plan.events_topics.values()))
    take_over(plan, loaded)
    (result,) = run_projectors(plan, logs, loaded)
    return result


def registered(name: str) -> Registered:
    return Registered(name, "a@b", "free")


def test_projections_receive_erasures(sqlite_database: DatabaseAddress) -> None:
    result = run_projection(
        sqlite_database, store_and_delete_names, registered("Ann"), registered("Bob"), Erased("AAAAAAAAAAA")
    )
    assert (result.error, result.events) == (None, 3)
    assert query_rows(sqlite_database, "SELECT id, name FROM names") == [("c-1", "Bob")]


def raise_error(db: Connection, events: PersonalEvents) -> None:
    for recorded in events:
        raise LookupError(f"no place for {recorded.event}")


def raise_database_error(db: Connection, events: PersonalEvents) -> None:
    for recorded in events:
        if isinstance(recorded.event, Registered):
            db.execute(text(f"SELECT {recorded.event.name}(:name)"), {"name": recorded.event.name})


@pytest.mark.parametrize(
    ("project", "kind"), [(raise_error, "LookupError"), (raise_database_error, "OperationalError")]
)
def test_errors_contain_no_value(
    sqlite_database: DatabaseAddress, project: Callable[[Connection, PersonalEvents], None], kind: str
) -> None:
    """The errors of the code and of the database, and the traceback of `-v`, contain no value."""
    error = run_projection(sqlite_database, project, registered(PERSONAL_TEXT)).error
    assert error is not None
    assert f"raised on customer.Registered customer.events:0@0 ('c-0', version 1): {kind}" in error.message
    assert PERSONAL_TEXT not in "".join(traceback.format_exception(error))


def test_reserved_events_have_their_type(sqlite_database: DatabaseAddress) -> None:
    error = run_projection(sqlite_database, raise_error, Erased("AAAAAAAAAAA")).error
    assert error is not None
    assert "raised on cqrs.Erased customer.events:0@0" in error.message
