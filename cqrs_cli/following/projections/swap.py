"""Exchanges the live tables of a projection, and their positions, for the new ones: in one transaction where tables are
part of one, else so that it is finished by whoever comes next.

1. Lock the live positions of all partitions: the live tables stand still.
2. Fold into the new tables what is missing, until each new position is as far as the live one: nobody who waited for
   an event may lose it.
3. Exchange tables and positions, the owner among them, so that an older run finds that it was taken over.
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
from cqrs_cli.kafka.event_tail import EventPartition, Tell

#: Brings the new tables up to these offsets.
CatchUp = Callable[[Mapping[EventPartition, int]], None]


def exchange(live: ProjectionPlan, new: ProjectionPlan, loaded: LoadedProjection, note: Tell) -> None:
    """`swap_tables`; what is missing is folded in this process. Tried again while the database is busy or away."""

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
    """Put the new tables in the place of the live ones. Raises `TakenOverError` if the new ones are another run's."""
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
    """Lock the live positions and bring the new tables up to them; the schema of these, whose positions are locked.

    None if they are in place: the answer to the last commit was lost.
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
    """The positions of the live tables; those of a topic that was made again do not count."""
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
    """The names of the live tables and of the new ones."""
    facts = PROJECTIONS.to_metadata(MetaData(), schema=schema)
    old, made = (
        db.execute(select(table.c.tables).where(table.c.projection == name)).scalar_one()
        for table in (PROJECTIONS, facts)
    )
    return list(json.loads(old)), list(json.loads(made))
