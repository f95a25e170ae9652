"""Prepares a run: which tables it fills, from which positions, and the ownership of the positions."""

import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import SQLAlchemyError

from cqrs_cli.errors import ConfigurationError, UnavailableError
from cqrs_cli.following.projections.database import open_database, reading, shown
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.dialect import Begin
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.definition import check_columns, definition_digest, read_columns
from cqrs_cli.following.projections.failures import made_meanwhile, remedy, words
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.positions import take_positions
from cqrs_cli.following.projections.tables import make_control, make_tables, read_made, refuse_foreign
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection as Cluster
from cqrs_cli.kafka.event_tail import EventPartition, ReportProgress
from cqrs_cli.kafka.topics.topics import Topics

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings

_T = TypeVar("_T")

#: Timeout in seconds of `--once` for an unavailable database: long enough for a restart.
PATIENT = 60.0

#: Seconds between two attempts to reach the database.
_AWAY = 1.0

#: The number of retries after another run has created the same tables concurrently.
_RACES = 5


@dataclass(frozen=True, slots=True)
class PreparedProjection:
    """The plans of a run: if `new` is set, it fills shadow tables first; then `live` follows the live tables."""

    live: ProjectionPlan
    new: ProjectionPlan | None
    before: list[str]  # previous owners of the positions


def prepare_projection(
    settings: "Settings",
    connection: Cluster,
    loaded: LoadedProjection,
    place: DatabaseAddress,
    note: ReportProgress,
    *,
    rebuild: bool = False,
    patience: float | None = None,
) -> PreparedProjection:
    """Create missing tables and take ownership. Waits at most `patience` seconds (None: unlimited) for the database.

    Raises `ConfigurationError` for changed tables, `ContradictionError` for positions in a recreated topic.
    """
    plan = replace(_plan(settings, connection, loaded, place), patience=patience)
    dialect, engine = dialect_of(place), open_database(place)

    def prepared() -> PreparedProjection:
        starts = _starts(plan)
        with dialect.preparing(engine, plan.name, dialect.beside(place, plan.name)) as begin:
            return prepare_tables(plan, loaded, engine, rebuild, starts, begin)

    try:
        return patiently(prepared, plan, note)
    finally:
        engine.dispose()


def patiently(work: Callable[[], _T], plan: ProjectionPlan, note: ReportProgress) -> _T:
    """Return the result of `work`, retried until the database responds.

    Raises `ConfigurationError` if a retry does not help, `UnavailableError` after the plan's timeout (`patience`).
    """
    place, began = plan.place, time.monotonic()
    told = False
    raced = 0
    while True:
        try:
            return work()
        except SQLAlchemyError as error:
            if made_meanwhile(error) and raced < _RACES:
                raced += 1
                continue
            if remedy(error) == "none":
                raise ConfigurationError(
                    f"{shown(place)}: {words(error)}", "correct --to, or the database"
                ) from error
            if plan.patience is not None and time.monotonic() - began > plan.patience:
                raise UnavailableError(
                    f"no answer from {shown(place)} for {plan.patience:g} s ({words(error)})",
                    "start it, or correct --to",
                ) from error
            if remedy(error) == "wait" and not told:
                note(f"no answer from {shown(place)} ({words(error)}); still trying")
                told = True
            time.sleep(_AWAY)


def _plan(
    settings: "Settings", connection: Cluster, loaded: LoadedProjection, place: DatabaseAddress
) -> ProjectionPlan:
    named = {name: Topics(name, settings.topic_prefix) for name in sorted(loaded.aggregates)}
    topics = {name: one.events for name, one in named.items()}
    with Admin(connection) as admin:
        described = admin.describe([*topics.values(), *(one.lineage for one in named.values())])
    grown = {name: one for name, one in named.items() if one.lineage in described}
    found = {topic: info for topic, info in described.items() if topic in topics.values()}
    for topic in topics.values():
        if topic not in found:
            raise ConfigurationError(f"topic {topic} does not exist", "create it: cqrs init")
    return ProjectionPlan(
        loaded.name,
        connection,
        settings.aggregates,
        settings.root,
        {topic: info.topic_id for topic, info in found.items()},
        [
            EventPartition(name, topic, p)
            for name, topic in topics.items()
            for p in range(found[topic].partitions)
        ],
        place,
        f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}",
        grown=grown,
    )


def prepare_tables(
    plan: ProjectionPlan,
    loaded: LoadedProjection,
    engine: Engine,
    rebuild: bool,
    starts: Mapping[EventPartition, int],
    begin: Begin,
) -> PreparedProjection:
    """Create missing tables, and take ownership of the tables to fill."""
    make_control(engine)
    with reading(engine).connect() as connection:
        made = read_made(connection, plan.name)
        refuse_foreign(connection, loaded, made.names if made else [])
    if made is None or not made.definition:
        make_tables(engine, loaded, made.names if made else [])
    elif rebuild or made.revision < loaded.projection.revision:
        with reading(engine).connect() as connection:
            dialect_of(engine).check_exchangeable(connection, made.names)
        return PreparedProjection(plan, _beside(plan, loaded, engine, rebuild, starts), [])
    with begin() as db:
        before = take_positions(db, plan, starts)
        _check_made(plan, loaded, db)  # no other run can swap the tables now
    return PreparedProjection(plan, None, before)


def _check_made(plan: ProjectionPlan, loaded: LoadedProjection, db: Connection) -> None:
    """Reject code older than the tables, a changed definition without a new revision, and altered tables."""
    made = read_made(db, plan.name)
    assert made is not None
    revision = loaded.projection.revision
    if made.revision > revision:
        raise ConfigurationError(
            f"the tables of {plan.name} have revision {made.revision}, the code {revision}",
            "deploy the newer code, or fill them from this one: cqrs project --rebuild",
        )
    if made.definition != definition_digest(loaded, db.engine):
        raise ConfigurationError(
            f"the tables or events of projection {plan.name} changed, its revision did not",
            f"raise it: cqrs.Projection(…, revision={revision + 1})",
        )
    check_columns(db, plan.name, made.tables)


def _beside(
    plan: ProjectionPlan,
    loaded: LoadedProjection,
    live: Engine,
    rebuild: bool,
    starts: Mapping[EventPartition, int],
) -> ProjectionPlan:
    """Return the plan for shadow tables. It reuses unchanged shadow tables of this revision unless `rebuild` is set."""
    dialect = dialect_of(plan.place)
    place = dialect.beside(plan.place, plan.name)
    new = replace(plan, place=place, beside=True)
    engine = open_database(place)
    try:
        if rebuild or not (dialect.exists(live, place) and _is_begun(engine, loaded)):
            dialect.clear(live, place)
            make_control(engine, fresh=True)
            make_tables(engine, loaded)
        with engine.begin() as db:
            take_positions(db, new, starts)
    finally:
        engine.dispose()
    return new


def _is_begun(engine: Engine, loaded: LoadedProjection) -> bool:
    with reading(engine).connect() as connection:
        made = read_made(connection, loaded.name)
        if made is None or read_columns(connection, made.names) != made.columns:
            return False
    revision, definition = loaded.projection.revision, definition_digest(loaded, engine)
    return (made.revision, made.definition) == (revision, definition)


def _starts(plan: ProjectionPlan) -> dict[EventPartition, int]:
    """Return the first offset of each partition."""
    return {source: low for source, (low, _) in _bounds(plan).items()}


def ends(plan: ProjectionPlan) -> dict[EventPartition, int]:
    """Return the last stable offset of each partition, at which `--once` ends."""
    return {source: end for source, (_, end) in _bounds(plan).items()}


def _bounds(plan: ProjectionPlan) -> dict[EventPartition, tuple[int, int]]:
    found: dict[EventPartition, tuple[int, int]] = {}
    for topic in plan.topic_ids:
        sources = {source.partition: source for source in plan.sources if source.topic == topic}
        # The highest partition comes first: if its end includes an event after a split, then the ends of its parents,
        # which are read later, include all events before the split.
        for number, both in readers.bounds(plan.connection, topic, sorted(sources, reverse=True)).items():
            found[sources[number]] = both
    return found
