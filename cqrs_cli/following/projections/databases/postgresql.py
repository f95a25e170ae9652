"""PostgreSQL: a table swap moves tables between schemas, with indexes and sequences, in one transaction."""

from sqlalchemy import Connection, Engine, MetaData, create_engine, text

from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.control import POSITIONS, swap_control_rows
from cqrs_cli.following.projections.databases.dialect import Dialect, RetryPolicy, TableSwap, quoted

#: SQLSTATEs of temporary errors: serialization failure, deadlock, lock not available.
_RETRY_STATES = {"40001", "40P01", "55P03"}

#: Prefixes of SQLSTATEs of a server that is unavailable, or accepts no writes: connection exception, read-only
#: transaction (a standby after a failover), insufficient resources (a full disk), operator intervention, system error.
_UNAVAILABLE_STATES = ("08", "25006", "53", "57P", "58")

#: SQLSTATEs of an object that another run has created concurrently.
_ALREADY_EXISTS_STATES = {"42P06", "42P07", "42710", "23505"}

#: Error texts of a server that is not ready to accept logins.
_NOT_READY_TEXTS = ("starting up", "shutting down", "too many clients", "recovery mode")


class Postgres(Dialect):
    """PostgreSQL; shadow tables are in a separate schema."""

    name = "postgresql"
    driver = "postgresql+psycopg"
    module = "psycopg"
    example = "postgresql://…"
    password_hint = "put it into ~/.pgpass, or PGPASSWORD"

    def open_engine(self, database: DatabaseAddress) -> Engine:
        options = {} if database.schema is None else {"options": f'-csearch_path="{database.schema}",public'}
        return create_engine(database.url, connect_args=options, pool_size=100)

    def retry_policy(self, error: BaseException) -> RetryPolicy:
        state = _sqlstate(error)
        if state in _RETRY_STATES:
            return "again"
        return (
            "wait"
            if state.startswith(_UNAVAILABLE_STATES) or (not state and _is_unavailable(error))
            else "none"
        )

    def is_already_exists(self, error: BaseException) -> bool:
        return _sqlstate(error) in _ALREADY_EXISTS_STATES or super().is_already_exists(error)

    def shadow_address(self, database: DatabaseAddress, projection: str) -> DatabaseAddress:
        return database._replace(schema=f"cqrs_new_{projection}")

    def swap_tables(self, db: Connection, swap: TableSwap) -> None:
        schema = quoted(db, swap.schema)
        live_schema = quoted(db, db.execute(text("SELECT current_schema()")).scalar_one())
        if swap.old:
            old = ", ".join(f"{live_schema}.{quoted(db, table)}" for table in swap.old)
            db.execute(text(f"DROP TABLE IF EXISTS {old}"))
        for table in swap.new:
            db.execute(text(f"ALTER TABLE {schema}.{quoted(db, table)} SET SCHEMA {live_schema}"))
        swap_control_rows(db, swap.projection, POSITIONS.to_metadata(MetaData(), schema=swap.schema))
        self.drop_schema(db, swap.schema)


def _sqlstate(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def _is_unavailable(error: BaseException) -> bool:
    """Return True if the server did not respond or is not ready.

    psycopg has no SQLSTATE for these errors, nor for a rejected login, where a retry does not help.
    """
    from psycopg import InterfaceError, OperationalError

    message = str(error)
    is_connection_error = isinstance(error, (OperationalError, InterfaceError))
    return is_connection_error and (
        "FATAL" not in message or any(text in message for text in _NOT_READY_TEXTS)
    )
