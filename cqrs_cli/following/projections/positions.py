"""Reads, takes over and moves the positions of a projection in its database."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Table, insert, inspect, select, update
from sqlalchemy.exc import DBAPIError

from cqrs_cli.errors import ContradictionError, TakenOverError
from cqrs_cli.following.projections.database import read_only
from cqrs_cli.following.projections.databases.control import POSITIONS
from cqrs_cli.following.projections.failures import is_not_found
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.state.evidence import Evidence


class Position(NamedTuple):
    """A row of the positions table."""

    topic_id: str
    next_offset: int
    owner: str
    last_event: Evidence | None  # None before the first event


class PositionMovedError(Exception):
    """The position is not at its expected value; the projector must read it again."""


def row_of(table: Table, plan: ProjectionPlan, source: EventPartition) -> ColumnElement[bool]:
    """Return the condition for the row of one partition in `POSITIONS` or `ERRORS`."""
    row = table.c
    return (row.projection == plan.name) & (row.topic == source.topic) & (row.partition == source.partition)


def read_positions(connection: Connection, name: str) -> dict[tuple[str, int], Position]:
    """Return (topic, partition) → position, for all positions of a projection."""
    row = POSITIONS.c
    query = select(
        row.topic, row.partition, row.topic_id, row.next_offset, row.owner, row.last_offset, row.last_digest
    )
    positions = {}
    for topic, partition, topic_id, next_offset, owner, last_offset, last_digest in connection.execute(
        query.where(row.projection == name)
    ):
        last_event = None if last_digest is None else Evidence(last_offset, last_digest)
        positions[topic, partition] = Position(topic_id, next_offset, owner, last_event)
    return positions


def read_offsets(connection: Connection, name: str, topic: str) -> dict[int, int]:
    """Return partition → next offset, for all partitions of a topic."""
    return {
        partition: position.next_offset
        for (known_topic, partition), position in read_positions(connection, name).items()
        if known_topic == topic
    }


def move_position(
    db: Connection,
    plan: ProjectionPlan,
    source: EventPartition,
    old_offset: int,
    new_offset: int,
    last_event: Evidence | None = None,
) -> None:
    """Move the position from `old_offset` to `new_offset`. This must be the first statement of a batch.

    The statement locks the row. Raises `PositionMovedError` if the position belongs to another run or topic, or is not
    at `old_offset`: so a stale projector stops before its work. `last_event`: evidence of the batch's last event; None
    for a batch without events, and for a batch that is written event by event.
    """
    expected_row = (
        row_of(POSITIONS, plan, source)
        & (POSITIONS.c.topic_id == plan.events_topics[source.topic].topic_id)
        & (POSITIONS.c.next_offset == old_offset)
        & (POSITIONS.c.owner == plan.owner)
    )
    values: dict[str, int | str] = {"next_offset": new_offset}
    if last_event is not None:
        values |= {"last_offset": last_event.offset, "last_digest": last_event.digest}
    if db.execute(update(POSITIONS).where(expected_row).values(values)).rowcount != 1:
        raise PositionMovedError


def read_own_position(engine: Engine, plan: ProjectionPlan, source: EventPartition) -> Position:
    """Return the position at which this run continues.

    Raises `TakenOverError` if another run owns the position, `ContradictionError` if it belongs to a recreated topic.
    """
    try:
        with read_only(engine).connect() as connection:
            exists = inspect(connection).has_table(POSITIONS.name)
            positions = read_positions(connection, plan.name) if exists else None
    except DBAPIError as error:
        if not is_not_found(error):
            raise
        positions = None
    if positions is None:
        raise TakenOverError(
            f"the tables that {plan.name} was filling are missing", "another rebuild has started"
        )
    return _owned_position(plan, source, positions.get((source.topic, source.partition)))


def _owned_position(plan: ProjectionPlan, source: EventPartition, position: Position | None) -> Position:
    if position is None or position.owner != plan.owner:
        owner = f"run {position.owner}" if position else "another run"
        raise TakenOverError(
            f"{owner} took over projection {plan.name}",
            "let the other run continue: starting this run again would take the projection back",
        )
    check_topic(plan, source, position)
    return position


def check_topic(plan: ProjectionPlan, source: EventPartition, position: Position) -> None:
    """Raise `ContradictionError` if the position belongs to a topic that was deleted and recreated since."""
    if position.topic_id != plan.events_topics[source.topic].topic_id:
        raise ContradictionError(
            f"{source.topic} was recreated since {plan.name} was filled from it",
            f"fill the tables from the new topic: cqrs project {plan.name} --rebuild",
        )


def take_over_positions(
    db: Connection, plan: ProjectionPlan, starts: Mapping[EventPartition, int]
) -> list[str]:
    """Make this run the owner of all positions, and return the previous owners. The caller commits.

    A partition without a position gets the position in `starts`.
    """
    positions = read_positions(db, plan.name)
    for source in sorted(plan.sources):
        position = positions.get((source.topic, source.partition))
        if position is None:
            row = {
                "projection": plan.name,
                "topic": source.topic,
                "partition": source.partition,
                "topic_id": plan.events_topics[source.topic].topic_id,
                "next_offset": starts[source],
                "owner": plan.owner,
            }
            db.execute(insert(POSITIONS).values(row))
        else:
            check_topic(plan, source, position)
            db.execute(update(POSITIONS).where(row_of(POSITIONS, plan, source)).values(owner=plan.owner))
    return sorted({position.owner for position in positions.values()} - {plan.owner})
