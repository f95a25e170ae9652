"""Table swap: replaces the live tables of a projection, and their positions, with the shadow tables.

The swap is one transaction if the database has transactional DDL. Otherwise the next run completes an interrupted swap.

1. Lock the live positions of all partitions, so that the live tables do not change.
2. Fold the missing events into the shadow tables, until each of their positions has reached the live position: a client
   that has waited for an event must still find the event after the swap.
3. Swap tables and positions, including the owner, so that an older run notices that it was taken over.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sqlalchemy import Connection, MetaData, select

from cqrs_cli.errors import TakenOverError
from cqrs_cli.following.projections.database import open_database
from cqrs_cli.following.projections.databases.control import POSITIONS, PROJECTIONS
from cqrs_cli.following.projections.databases.dialect import Exchange
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.load import LoadedProjection
from cqrs_cli.following.projections.plan import ProjectionPlan, ProjectorResult
from cqrs_cli.following.projections.positions import Position, read_positions
from cqrs_cli.following.projections.prepare import patiently
from cqrs_cli.following.projections.runner import project_partitions
from cqrs_cli.kafka.event_tail import EventPartition, ReportProgress

#: Folds events into the shadow tables up to these offsets.
CatchUp = Callable[[Mapping[EventPartition, int]], None]


def exchange(
    live: ProjectionPlan, new: ProjectionPlan, loaded: LoadedProjection, note: ReportProgress
) -> None:
    """Run `swap_tables`, and fold missing events in this process. Retries while the database is busy or unavailable."""

    def catch_up(targets: Mapping[EventPartition, int]) -> None:
        tail = replace(new, targets=targets)
        raise_first(
            project_partitions(tail, [source for source in new.sources if source in targets], loaded, note)
        )

    patiently(lambda: swap_tables(live, new, catch_up), live, note)


def raise_first(results: Iterable[ProjectorResult]) -> None:
    """Raise the error of the first projector that failed."""
    for result in results:
        if result.error is not None:
            raise result.error


def swap_tables(live: ProjectionPlan, new: ProjectionPlan, catch_up: CatchUp) -> None:
    """Replace the live tables with the shadow tables. Raises `TakenOverError` if another run owns the shadow tables."""
    dialect, engine = dialect_of(live.place), open_database(live.place)
    try:
        with dialect.exchanging(engine, live.name, new.place) as db:
            schema = _stand_still(db, live, new, catch_up)
            if schema is not None:
                old, made = _both_tables(db, live.name, schema)
                dialect.exchange(db, Exchange(live.name, new.owner, schema, old, made))
    finally:
        engine.dispose()


def _stand_still(db: Connection, live: ProjectionPlan, new: ProjectionPlan, catch_up: CatchUp) -> str | None:
    """Lock the live positions and catch up the shadow tables; lock their positions too, and return their schema.

    Return None if the swap is already done: the response to its last commit was lost.
    """
    dialect = dialect_of(db)
    dialect.hold(db, select(POSITIONS.c.next_offset).where(POSITIONS.c.projection == live.name))
    before = read_positions(db, live.name)
    if not dialect.has_positions(db, new.place):
        _check_owner(new, {position.owner for position in before.values()})
        return None
    catch_up(_targets(live, before))
    schema = dialect.attach(db, new.place)
    theirs = POSITIONS.to_metadata(MetaData(), schema=schema)
    _check_owner(new, set(dialect.hold(db, select(theirs.c.owner))))
    return schema


def _targets(
    plan: ProjectionPlan, positions: Mapping[tuple[str, int], Position]
) -> dict[EventPartition, int]:
    """Return the positions of the live tables, without positions in a recreated topic."""
    return {
        source: found.next_offset
        for source in plan.sources
        if (found := positions.get((source.topic, source.partition))) is not None
        and found.topic_id == plan.topic_ids[source.topic]
    }


def _check_owner(plan: ProjectionPlan, owners: set[str]) -> None:
    if owners != {plan.owner}:
        other = ", ".join(sorted(owners - {plan.owner})) or "nobody"
        raise TakenOverError(
            f"run {other} took over the new tables of projection {plan.name}",
            "let it work: it exchanges them",
        )


def _both_tables(db: Connection, name: str, schema: str) -> tuple[list[str], list[str]]:
    """Return the names of the live tables and of the shadow tables."""
    facts = PROJECTIONS.to_metadata(MetaData(), schema=schema)
    old, made = (
        db.execute(select(table.c.tables).where(table.c.projection == name)).scalar_one()
        for table in (PROJECTIONS, facts)
    )
    return list(json.loads(old)), list(json.loads(made))
