"""Read-your-writes: waits until a projection has projected an event."""

import time
from typing import TYPE_CHECKING

from cqrs_cli.errors import ConfigurationError, NoOutcomeError

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

#: Seconds between two polls.
_POLL_INTERVAL = 0.02


def wait_for_event(
    db: "Engine | Connection",
    partition: int,
    offset: int,
    *,
    projection: str | None = None,
    topic: str | None = None,
    timeout: float = 30.0,
) -> None:
    """Wait until the event at this offset of its partition is in the tables. Read the tables in a later transaction.

    `projection` and `topic` select the projections to wait for; the default is every projection in the database. Raises
    `NoOutcomeError` after `timeout` seconds, and `ConfigurationError` if no such projection reads the partition.
    """
    engine = db.engine
    deadline = time.monotonic() + timeout
    while True:
        positions = _positions(engine, partition, projection, topic)
        lagging = [name for name, next_offset in positions if next_offset <= offset]
        if not lagging:
            return
        if time.monotonic() > deadline:
            raise NoOutcomeError(
                f"{', '.join(lagging)}: event {partition}@{offset} is not projected after {timeout:g} s",
                "check that `cqrs project` runs",
            )
        time.sleep(_POLL_INTERVAL)


def _positions(
    engine: "Engine", partition: int, projection: str | None, topic: str | None
) -> list[tuple[str, int]]:
    from sqlalchemy import inspect, select
    from sqlalchemy.exc import DBAPIError

    from cqrs_cli.following.projections.databases.control import POSITIONS

    table = POSITIONS.c
    query = select(table.projection, table.next_offset).where(table.partition == partition)
    if projection is not None:
        query = query.where(table.projection == projection)
    if topic is not None:
        query = query.where(table.topic == topic)
    try:
        with engine.connect() as connection:
            positions = [(str(name), int(next_offset)) for name, next_offset in connection.execute(query)]
            projections = [] if positions else sorted(connection.scalars(select(table.projection).distinct()))
    except DBAPIError:
        if inspect(engine).has_table(POSITIONS.name):
            raise
        positions, projections = [], []
    if not positions:
        projection_text = f"projection {projection!r}" if projection else "any projection"
        is_unknown = projection is not None and projection not in projections
        raise ConfigurationError(
            f"the database has no position of {projection_text} on partition {partition}",
            f"it has {', '.join(projections)}" if projections and is_unknown else "fill it: cqrs project",
        )
    return positions
