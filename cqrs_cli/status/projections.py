"""The status of each partition of a projection, as stored in its database."""

from collections.abc import Iterable
from contextlib import suppress

from sqlalchemy import Engine, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from cqrs_cli.errors import ConfigurationError, CqrsError, UnavailableError
from cqrs_cli.following.last_error import LastError
from cqrs_cli.following.projections.database import open_database, read_only, url_without_password
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.control import POSITIONS
from cqrs_cli.following.projections.databases.known import dialect_of
from cqrs_cli.following.projections.failures import error_text
from cqrs_cli.following.projections.stored_errors import read_errors
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.status.partition import PROJECTION, PartitionOwner, PartitionStatus


def projection_statuses(cluster: Connection, address: DatabaseAddress) -> list[PartitionStatus]:
    """Return the status of every partition of every projection in a database, in order.

    Raises `ConfigurationError` if no projection has a position, `UnavailableError` without database or broker.
    """
    if not dialect_of(address).database_exists(address):
        raise _no_projection_error(address)
    engine = open_database(address, reads_only=True)
    try:
        rows, errors = _stored_positions(engine), read_errors(engine)
        rebuild_errors = _rebuild_errors(engine, address, {row[0] for row in rows})
    except SQLAlchemyError as error:
        raise UnavailableError(
            f"no answer from {url_without_password(address)} ({error_text(error)})",
            "check that the URL names the database of a projection",
        ) from error
    finally:
        engine.dispose()
    if not rows:
        raise _no_projection_error(address)
    ends = _stable_ends(cluster, {(topic, topic_id) for _, topic, _, topic_id, _, _ in rows})
    return [
        _status(
            name,
            topic,
            partition,
            position,
            ends.get((topic, topic_id), {}).get(partition),
            owner,
            errors.get((name, topic, partition)),
            rebuild_errors.get((name, topic, partition)),
        )
        for name, topic, partition, topic_id, position, owner in rows
    ]


def _status(
    name: str,
    topic: str,
    partition: int,
    position: int,
    end: int | None,
    owner: str,
    error: LastError | None,
    rebuild_error: LastError | None,
) -> PartitionStatus:
    return PartitionStatus(
        PROJECTION,
        name,
        topic.removesuffix(".events"),
        topic,
        partition,
        end=end,
        position=position,
        lag=None if end is None else max(0, end - position),
        owner=PartitionOwner(owner),
        last_error=error,
        rebuild_error=rebuild_error,
    )


def _rebuild_errors(
    live: Engine, address: DatabaseAddress, projections: Iterable[str]
) -> dict[tuple[str, str, int], LastError]:
    """Return the errors at the shadow tables of projections, as `read_errors`. The shadow tables that a run is filling
    may be unreadable: their errors are left out.
    """
    dialect, errors = dialect_of(address), dict[tuple[str, str, int], LastError]()
    for projection in projections:
        with suppress(SQLAlchemyError, CqrsError):
            shadow = dialect.shadow_address(address, projection)
            if dialect.has_shadow_tables(live, shadow):
                engine = open_database(shadow, reads_only=True)
                try:
                    errors |= read_errors(engine)
                finally:
                    engine.dispose()
    return errors


def _no_projection_error(address: DatabaseAddress) -> ConfigurationError:
    return ConfigurationError(
        f"no projection has a position in {url_without_password(address)}",
        "use the URL of `cqrs project --to`",
    )


def _stored_positions(engine: Engine) -> list[tuple[str, str, int, str, int, str]]:
    """Return (projection, topic, partition, topic id, next offset, owner) for each partition, in order."""
    cols = POSITIONS.c
    query = select(cols.projection, cols.topic, cols.partition, cols.topic_id, cols.next_offset, cols.owner)
    with read_only(engine).connect() as connection:
        if not inspect(connection).has_table(POSITIONS.name):
            return []
        return [
            tuple(stored_row)
            for stored_row in connection.execute(query.order_by(*query.selected_columns[:3]))
        ]


def _stable_ends(cluster: Connection, topics: set[tuple[str, str]]) -> dict[tuple[str, str], dict[int, int]]:
    """Return the last stable offsets: (topic, topic id) → partition → offset. Recreated topics are left out."""
    with Admin(cluster) as admin:
        infos = admin.describe({topic for topic, _ in topics})
    current_topics = [
        (topic, topic_id)
        for topic, topic_id in topics
        if topic in infos and infos[topic].topic_id == topic_id
    ]
    ends: dict[tuple[str, str], dict[int, int]] = {}
    for topic, topic_id in current_topics:
        bounds = readers.bounds(cluster, topic, range(infos[topic].partitions))
        ends[topic, topic_id] = {partition: end for partition, (_, end) in bounds.items()}
    return ends
