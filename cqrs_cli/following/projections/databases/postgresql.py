"""PostgreSQL: a table swap moves tables between schemas, with indexes and sequences, in one transaction."""

from sqlalchemy import Connection, Engine, MetaData, create_engine, text

from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.control import POSITIONS, adopt_control
from cqrs_cli.following.projections.databases.dialect import Dialect, Exchange, Remedy, quoted

#: SQLSTATEs of temporary errors: serialization failure, deadlock, lock not available.
_PASSING = {"40001", "40P01", "55P03"}

#: Prefixes of SQLSTATEs of an unavailable server: connection exception, operator intervention, too many connections.
_AWAY = ("08", "57P", "53300")

#: SQLSTATEs of an object that another run has created concurrently.
_MADE = {"42P06", "42P07", "42710", "23505"}

#: Error texts of a server that is not ready to accept logins.
_UNREADY = ("starting up", "shutting down", "too many clients", "recovery mode")


class Postgres(Dialect):
    """PostgreSQL; shadow tables are in a separate schema."""

    name = "postgresql"
    driver = "postgresql+psycopg"
    module = "psycopg"
    example = "postgresql://…"
    password = "put it into ~/.pgpass, or PGPASSWORD"

    def open(self, place: DatabaseAddress) -> Engine:
        path = {} if place.schema is None else {"options": f'-csearch_path="{place.schema}",public'}
        return create_engine(place.url, connect_args=path, pool_size=100)

    def remedy(self, error: BaseException) -> Remedy:
        state = _state(error)
        if state in _PASSING:
            return "again"
        return "wait" if state.startswith(_AWAY) or (not state and _is_silent(error)) else "none"

    def is_made(self, error: BaseException) -> bool:
        return _state(error) in _MADE or super().is_made(error)

    def beside(self, place: DatabaseAddress, projection: str) -> DatabaseAddress:
        return place._replace(schema=f"cqrs_new_{projection}")

    def exchange(self, db: Connection, exchange: Exchange) -> None:
        schema = quoted(db, exchange.schema)
        home = quoted(db, db.execute(text("SELECT current_schema()")).scalar_one())
        if exchange.old:
            old = ", ".join(f"{home}.{quoted(db, table)}" for table in exchange.old)
            db.execute(text(f"DROP TABLE IF EXISTS {old}"))
        for table in exchange.new:
            db.execute(text(f"ALTER TABLE {schema}.{quoted(db, table)} SET SCHEMA {home}"))
        adopt_control(db, exchange.projection, POSITIONS.to_metadata(MetaData(), schema=exchange.schema))
        self.drop(db, exchange.schema)


def _state(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _is_silent(error: BaseException) -> bool:
    """Return True if the server did not respond or is not ready.

    psycopg has no SQLSTATE for these errors, nor for a rejected login, where a retry does not help.
    """
    from psycopg import InterfaceError, OperationalError

    said = str(error)
    unreached = isinstance(error, (OperationalError, InterfaceError))
    return unreached and ("FATAL" not in said or any(words in said for words in _UNREADY))
