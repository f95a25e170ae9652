"""Prepares a run of `cqrs project`: creates the tables to fill, and takes ownership of their positions."""

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
from cqrs_cli.following.plan import describe_events_topics, event_partitions
from cqrs_cli.following.projections.database import open_database, read_only, url_without_password
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.dialect import Begin
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.definition import check_columns, definition_digest, read_columns
from cqrs_cli.following.projections.failures import error_text, is_already_exists, retry_policy
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.positions import take_over_positions
from cqrs_cli.following.projections.tables import (
    check_foreign_tables,
    create_control_tables,
    create_tables,
    read_table_record,
)
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection as Cluster
from cqrs_cli.kafka.event_tail import EventPartition, ReportMessage
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.complete_events import check_starts

if TYPE_CHECKING:
    from cqrs_cli.settings.settings import Settings

_Result = TypeVar("_Result")

#: Timeout in seconds for an unavailable database in a run with `--once`. It is long enough for a restart.
ONCE_TIMEOUT = 60.0

#: Seconds between two attempts to reach the database.
_RETRY_DELAY = 1.0

#: Maximum number of retries after another run has created the same tables concurrently.
_MAX_RACES = 5


@dataclass(frozen=True, slots=True)
class PreparedProjection:
    """The plans of a run."""

    live: ProjectionPlan  # the plan for the live tables
    #: The plan for shadow tables, which the run fills first; None without shadow tables.
    new: ProjectionPlan | None
    previous_owners: list[str]  # runs that owned the positions before, such as `host:4711:1f2e3d4c`


def prepare_projection(
    settings: "Settings",
    connection: Cluster,
    loaded_projection: LoadedProjection,
    database: DatabaseAddress,
    report: ReportMessage,
    *,
    rebuild: bool = False,
    timeout: float | None = None,
) -> PreparedProjection:
    """Create missing tables and take ownership. Waits at most `timeout` seconds (None: unlimited) for the database.

    Raises `ConfigurationError` for changed tables, `ContradictionError` for positions in a recreated topic.
    """
    plan = replace(_plan(settings, connection, loaded_projection, database), timeout=timeout)
    dialect, engine = dialect_of(database), open_database(database)

    def prepare() -> PreparedProjection:
        starts = log_starts(plan)
        with dialect.preparation(engine, plan.name, dialect.shadow_address(database, plan.name)) as begin:
            return prepare_tables(plan, loaded_projection, engine, rebuild, starts, begin)

    try:
        return retry_until_available(prepare, plan, report)
    finally:
        engine.dispose()


def retry_until_available(
    action: Callable[[], _Result], plan: ProjectionPlan, report: ReportMessage
) -> _Result:
    """Return the result of `action`, retried until the database responds.

    Raises `ConfigurationError` if a retry does not help, `UnavailableError` after `plan.timeout` seconds.
    """
    database, started_at = plan.database, time.monotonic()
    is_reported = False
    races = 0
    while True:
        try:
            return action()
        except SQLAlchemyError as error:
            if is_already_exists(error) and races < _MAX_RACES:
                races += 1
                continue
            if retry_policy(error) == "none":
                raise ConfigurationError(
                    f"{url_without_password(database)}: {error_text(error)}",
                    "correct --to, or repair the database",
                ) from error
            if plan.timeout is not None and time.monotonic() - started_at > plan.timeout:
                raise UnavailableError(
                    f"no answer from {url_without_password(database)} for {plan.timeout:g} s ({error_text(error)})",
                    "start the database, or correct --to",
                ) from error
            if retry_policy(error) == "wait" and not is_reported:
                report(f"no answer from {url_without_password(database)} ({error_text(error)}); still trying")
                is_reported = True
            time.sleep(_RETRY_DELAY)


def _plan(
    settings: "Settings", connection: Cluster, loaded_projection: LoadedProjection, database: DatabaseAddress
) -> ProjectionPlan:
    aggregates = [Topics(name, settings.topic_prefix) for name in sorted(loaded_projection.aggregates)]
    with Admin(connection) as admin:
        events_topics = describe_events_topics(admin, connection, settings.partitioner, aggregates)
    return ProjectionPlan(
        connection,
        settings.aggregates,
        settings.root,
        settings.partitioner,
        events_topics,
        loaded_projection.name,
        event_partitions(aggregates, events_topics),
        database,
        f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}",
    )


def prepare_tables(
    plan: ProjectionPlan,
    loaded_projection: LoadedProjection,
    engine: Engine,
    rebuild: bool,
    starts: Mapping[EventPartition, int],
    begin: Begin,
) -> PreparedProjection:
    """Create missing tables, and take ownership of the tables to fill."""
    create_control_tables(engine)
    with read_only(engine).connect() as connection:
        record = read_table_record(connection, plan.name)
        check_foreign_tables(connection, loaded_projection, record.names if record else [])
    if record is None or not record.definition:
        create_tables(engine, loaded_projection, record.names if record else [])
    elif rebuild or record.revision < loaded_projection.projection.revision:
        with read_only(engine).connect() as connection:
            dialect_of(engine).check_swappable(connection, record.names)
        return PreparedProjection(plan, _shadow_plan(plan, loaded_projection, engine, rebuild, starts), [])
    with begin() as db:
        previous_owners = take_over_positions(db, plan, starts)
        _check_tables(plan, loaded_projection, db)  # no other run can swap the tables now
    return PreparedProjection(plan, None, previous_owners)


def _check_tables(plan: ProjectionPlan, loaded_projection: LoadedProjection, db: Connection) -> None:
    """Reject code older than the tables, a changed definition without a new revision, and altered tables."""
    record = read_table_record(db, plan.name)
    assert record is not None
    revision = loaded_projection.projection.revision
    if record.revision > revision:
        raise ConfigurationError(
            f"the tables of {plan.name} have revision {record.revision}, the code has revision {revision}",
            "deploy the newer code, or fill them with this code: cqrs project --rebuild",
        )
    if record.definition != definition_digest(loaded_projection, db.engine):
        raise ConfigurationError(
            f"the tables or events of projection {plan.name} changed without a new revision",
            f"raise the revision: cqrs.Projection(…, revision={revision + 1})",
        )
    check_columns(db, plan.name, record.tables)


def _shadow_plan(
    plan: ProjectionPlan,
    loaded_projection: LoadedProjection,
    live: Engine,
    rebuild: bool,
    starts: Mapping[EventPartition, int],
) -> ProjectionPlan:
    """Create shadow tables, and return the plan to fill them. Without `rebuild`, existing shadow tables of the same
    revision and definition are used again.
    """
    dialect = dialect_of(plan.database)
    database = dialect.shadow_address(plan.database, plan.name)
    new = replace(plan, database=database, is_shadow=True)
    engine = open_database(database)
    try:
        if rebuild or not (
            dialect.has_shadow_tables(live, database) and _is_reusable(engine, loaded_projection)
        ):
            dialect.reset_shadow_tables(live, database)
            create_control_tables(engine, must_be_new=True)
            create_tables(engine, loaded_projection)
        with engine.begin() as db:
            take_over_positions(db, new, starts)
    finally:
        engine.dispose()
    return new


def _is_reusable(engine: Engine, loaded_projection: LoadedProjection) -> bool:
    with read_only(engine).connect() as connection:
        record = read_table_record(connection, loaded_projection.name)
        if record is None or read_columns(connection, record.names) != record.columns:
            return False
    revision, definition = loaded_projection.projection.revision, definition_digest(loaded_projection, engine)
    return (record.revision, record.definition) == (revision, definition)


def log_starts(plan: ProjectionPlan) -> dict[EventPartition, int]:
    """Return the first offset of each partition; raise `ContradictionError` if events were deleted."""
    starts = {source: low for source, (low, _) in _bounds(plan).items()}
    for source, start in starts.items():
        check_starts(plan.connection, source.topics, {source.partition: start})
    return starts


def stable_ends(plan: ProjectionPlan) -> dict[EventPartition, int]:
    """Return the last stable offset of each partition, at which `--once` ends."""
    return {source: end for source, (_, end) in _bounds(plan).items()}


def _bounds(plan: ProjectionPlan) -> dict[EventPartition, tuple[int, int]]:
    bounds_by_source: dict[EventPartition, tuple[int, int]] = {}
    for topic in plan.events_topics:
        sources = {source.partition: source for source in plan.sources if source.topic == topic}
        # The highest partition comes first: if its end includes an event after a split, then the ends of its parents,
        # which are read later, include all events before the split.
        for partition, bounds in readers.bounds(
            plan.connection, topic, sorted(sources, reverse=True)
        ).items():
            bounds_by_source[sources[partition]] = bounds
    return bounds_by_source
