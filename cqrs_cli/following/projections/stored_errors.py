"""Reads, stores and deletes the last error of each partition of a projection, in the projection's database."""

from sqlalchemy import ColumnElement, Connection, Engine, delete, insert, inspect, select

from cqrs_cli.errors import CqrsError, TakenOverError
from cqrs_cli.following.last_error import LastError, last_error
from cqrs_cli.following.projections.database import read_only
from cqrs_cli.following.projections.databases.control import ERRORS
from cqrs_cli.following.projections.failures import error_text
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.positions import (
    PositionMovedError,
    move_position,
    read_own_position,
    row_of,
)
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.observer import reached


def read_errors(engine: Engine) -> dict[tuple[str, str, int], LastError]:
    """Return (projection, topic, partition) → last error."""
    with read_only(engine).connect() as connection:
        if not inspect(connection).has_table(ERRORS.name):  # an earlier version created the tables
            return {}
        rows = connection.execute(select(*ERRORS.c)).all()
    return {(name, topic, partition): LastError(*error) for name, topic, partition, *error in rows}


class StoredError:
    """The stored error of one partition, which its projector replaces and deletes."""

    def __init__(self, engine: Engine, plan: ProjectionPlan, source: EventPartition) -> None:
        self._engine, self._plan, self._source = engine, plan, source
        self.exists = False

    @property
    def _row(self) -> ColumnElement[bool]:
        return row_of(ERRORS, self._plan, self._source)

    def load(self) -> None:
        """Find out whether an earlier run has stored an error."""
        with read_only(self._engine).connect() as connection:
            self.exists = connection.execute(select(ERRORS.c.type).where(self._row)).first() is not None

    def store(self, error: CqrsError, offset: int) -> None:
        """Store an error if this run still owns the position.

        A failure of the database is reported as a message, and not raised, because it would hide `error`.
        """
        if isinstance(error, TakenOverError):
            return
        try:
            position = read_own_position(self._engine, self._plan, self._source)
            with self._engine.begin() as db:
                self._delete_as_owner(db, position.next_offset)
                self._insert(db, last_error(error, error.message, offset))
            self.exists = True
        except (CqrsError, PositionMovedError):
            return  # the position belongs to another run or topic
        except Exception as failure:  # a driver may raise any exception
            name, source = self._plan.name, self._source
            reached(
                "message",
                text=f"projection {name}, {source.topic} partition {source.partition}: the database did not store the "
                f"error: {type(failure).__name__}: {error_text(failure)}",
            )

    def clear(self, position: int) -> None:
        """Delete the error in a transaction of its own; raises `PositionMovedError` as `move_position` does."""
        if self.exists:
            with self._engine.begin() as db:
                self._delete_as_owner(db, position)
            self.exists = False

    def delete(self, db: Connection) -> None:
        """Delete the error in this transaction, which has moved the position."""
        db.execute(delete(ERRORS).where(self._row))

    def _delete_as_owner(self, db: Connection, position: int) -> None:
        move_position(db, self._plan, self._source, position, position)
        self.delete(db)

    def _insert(self, db: Connection, entry: LastError) -> None:
        row = {
            "projection": self._plan.name,
            "topic": self._source.topic,
            "partition": self._source.partition,
            "type": entry.type,
            "message": entry.message,
            "event_offset": entry.offset,
            "time_ms": entry.time,
        }
        db.execute(insert(ERRORS).values(row))
