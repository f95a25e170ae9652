"""Table swap: replaces the live tables of a projection, and their positions, with the shadow tables.

The swap is one transaction if the database has transactional DDL. Otherwise the next run completes an interrupted swap.

1. Lock the live positions of all partitions, so that the live tables do not change.
2. Project the missing events into the shadow tables, until their positions have reached the live positions. So a client
   that has waited for an event still finds the event after the swap.
3. Swap tables and positions, including the owner, so that the older run notices the takeover.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sqlalchemy import Connection, MetaData, select

from cqrs_cli.errors import TakenOverError
from cqrs_cli.following.projections.database import open_database
from cqrs_cli.following.projections.databases.control import POSITIONS, PROJECTIONS
from cqrs_cli.following.projections.databases.dialect import TableSwap
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectorResult
from cqrs_cli.following.projections.positions import Position, read_positions
from cqrs_cli.following.projections.prepare import retry_until_available
from cqrs_cli.following.projections.runner import project_partitions
from cqrs_cli.kafka.event_tail import EventPartition, ReportMessage

#: Projects events into the shadow tables up to the given end offsets: partition → offset.
CatchUp = Callable[[Mapping[EventPartition, int]], None]


def swap_with_retries(
    live: ProjectionPlan, shadow: ProjectionPlan, loaded_projection: LoadedProjection, report: ReportMessage
) -> None:
    """Run `swap_tables`, and project missing events in this process. Retry while the database is unavailable."""

    def catch_up(end_offsets: Mapping[EventPartition, int]) -> None:
        catch_up_plan = replace(shadow, end_offsets=end_offsets)
        raise_first_error(
            project_partitions(
                catch_up_plan,
                [source for source in shadow.sources if source in end_offsets],
                loaded_projection,
                report,
            )
        )

    retry_until_available(lambda: swap_tables(live, shadow, catch_up), live, report)


def raise_first_error(results: Iterable[ProjectorResult]) -> None:
    """Raise the error of the first projector that failed."""
    for result in results:
        if result.error is not None:
            raise result.error


def swap_tables(live: ProjectionPlan, shadow: ProjectionPlan, catch_up: CatchUp) -> None:
    """Replace the live tables with the shadow tables. Raises `TakenOverError` if another run owns the shadow tables."""
    dialect, engine = dialect_of(live.database), open_database(live.database)
    try:
        with dialect.table_swap(engine, live.name, shadow.database) as db:
            schema = _lock_and_catch_up(db, live, shadow, catch_up)
            if schema is not None:
                live_tables, shadow_tables = _table_names(db, live.name, schema)
                dialect.swap_tables(
                    db, TableSwap(live.name, shadow.owner, schema, live_tables, shadow_tables)
                )
    finally:
        engine.dispose()


def _lock_and_catch_up(
    db: Connection, live: ProjectionPlan, shadow: ProjectionPlan, catch_up: CatchUp
) -> str | None:
    """Lock the live positions, catch up the shadow tables, lock their positions, and return the schema of the shadow
    tables.

    Return None if an earlier attempt has already swapped the tables, but the response to its commit was lost.
    """
    dialect = dialect_of(db)
    dialect.lock_rows(db, select(POSITIONS.c.next_offset).where(POSITIONS.c.projection == live.name))
    live_positions = read_positions(db, live.name)
    if not dialect.has_shadow_positions(db, shadow.database):
        _check_owner(shadow, {position.owner for position in live_positions.values()})
        return None
    catch_up(_end_offsets(live, live_positions))
    schema = dialect.attach_shadow_tables(db, shadow.database)
    shadow_positions = POSITIONS.to_metadata(MetaData(), schema=schema)
    _check_owner(shadow, set(dialect.lock_rows(db, select(shadow_positions.c.owner))))
    return schema


def _end_offsets(
    plan: ProjectionPlan, positions: Mapping[tuple[str, int], Position]
) -> dict[EventPartition, int]:
    """Return partition → position of the live tables, without positions that belong to a recreated topic."""
    return {
        source: position.next_offset
        for source in plan.sources
        if (position := positions.get((source.topic, source.partition))) is not None
        and position.topic_id == plan.events_topics[source.topic].topic_id
    }


def _check_owner(plan: ProjectionPlan, owners: set[str]) -> None:
    if owners != {plan.owner}:
        owner = ", ".join(sorted(owners - {plan.owner})) or "(unknown)"
        raise TakenOverError(
            f"run {owner} took over the new tables of projection {plan.name}",
            "let the other run continue: it swaps the tables",
        )


def _table_names(db: Connection, name: str, schema: str) -> tuple[list[str], list[str]]:
    """Return (names of the live tables, names of the shadow tables)."""
    shadow_projections = PROJECTIONS.to_metadata(MetaData(), schema=schema)
    live_tables, shadow_tables = (
        db.execute(select(table.c.tables).where(table.c.projection == name)).scalar_one()
        for table in (PROJECTIONS, shadow_projections)
    )
    return list(json.loads(live_tables)), list(json.loads(shadow_tables))
