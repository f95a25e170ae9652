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
NEEDLE = "Nadelheim"

Heard = Sequence[Recorded[Registered | Erased]]


def forgetting(db: Connection, events: Heard) -> None:
    for one in events:
        match one.event:
            case Registered(name):
                db.execute(insert(NAMES).values(id=one.aggregate_id, name=name))
            case Erased():
                db.execute(delete(NAMES).where(NAMES.c.id == one.aggregate_id))


def fill_live_tables(
    database: DatabaseAddress, project: Callable[[Connection, Heard], None], *events: Event
) -> ProjectorResult:
    """Run over these events and return the result.

    `Erased` is for the first customer; the others have one event each.
    """
    ids = [0 if isinstance(one, Erased) else n for n, one in enumerate(events)]
    log = [event_record(n, f"c-{ids[n]}", n + 1, one, aggregate="customer") for n, one in enumerate(events)]
    logs = {SOURCE: log}
    heard: frozenset[type[Event]] = frozenset({Registered, Erased})
    loaded = LoadedProjection("names", Projection(project, METADATA), {"customer": CUSTOMER}, heard, ("*",))
    plan = replace(make_plan(logs, database, name="names"), topic_ids={SOURCE.topic: "id-1"})
    take_over(plan, loaded)
    (result,) = run_projectors(plan, logs, loaded)
    return result


def registered(name: str) -> Registered:
    return Registered(name, "a@b", "free")


def test_projections_hear_what_is_erased(sqlite_database: DatabaseAddress) -> None:
    done = fill_live_tables(
        sqlite_database, forgetting, registered("Ann"), registered("Bob"), Erased("AAAAAAAAAAA")
    )
    assert (done.error, done.events) == (None, 3)
    assert query_rows(sqlite_database, "SELECT id, name FROM names") == [("c-1", "Bob")]


def raising(db: Connection, events: Heard) -> None:
    for one in events:
        raise LookupError(f"no place for {one.event}")


def misusing(db: Connection, events: Heard) -> None:
    for one in events:
        if isinstance(one.event, Registered):
            db.execute(text(f"SELECT {one.event.name}(:name)"), {"name": one.event.name})


@pytest.mark.parametrize(("project", "kind"), [(raising, "LookupError"), (misusing, "OperationalError")])
def test_errors_tell_no_value(
    sqlite_database: DatabaseAddress, project: Callable[[Connection, Heard], None], kind: str
) -> None:
    """The errors of the code and of the database, and the traceback of `-v`, contain no value."""
    error = fill_live_tables(sqlite_database, project, registered(NEEDLE)).error
    assert error is not None
    assert f"raised on customer.Registered customer.events:0@0 ('c-0', version 1): {kind}" in error.message
    assert NEEDLE not in "".join(traceback.format_exception(error))


def test_reserved_events_have_their_type(sqlite_database: DatabaseAddress) -> None:
    error = fill_live_tables(sqlite_database, raising, Erased("AAAAAAAAAAA")).error
    assert error is not None
    assert "raised on cqrs.Erased customer.events:0@0" in error.message
