"""Opens the database of a projection with SQLAlchemy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.dialect import READ_ONLY, TRANSACTION_GUARD
from cqrs_cli.following.projections.databases.known import DIALECTS, dialect_of, find_dialect


def parse_database(url_text: str, root: Path, flag: str = "--to") -> DatabaseAddress:
    """Parse the URL in a flag; raises `UsageError` for an unusable URL. A relative file is below `root`."""
    try:
        url = make_url(url_text)
    except ArgumentError:
        raise UsageError(
            f"{flag}: not a database URL: {url_text[:80]!r}", "e.g. sqlite:///orders.db"
        ) from None
    dialect = find_dialect(url.drivername)
    if url.password:
        raise UsageError(
            f"{flag}: a password is not accepted on the command line",
            dialect.password_hint if dialect else "leave it out",
        )
    if dialect is None:
        examples = [dialect.example for dialect in DIALECTS]
        raise UsageError(
            f"{flag}: {url.drivername} is not supported", f"use {', '.join(examples[:-1])} or {examples[-1]}"
        )
    url = dialect.complete_url(url.set(drivername=dialect.driver), root, flag)
    return DatabaseAddress(url.render_as_string())


def open_database(database: DatabaseAddress, *, reads_only: bool = False) -> Engine:
    """Return an engine for the database. Within `forbid_transaction_end`, it rejects commit and rollback.

    `reads_only`: it creates no database file.
    """
    dialect = dialect_of(database)
    try:
        engine = dialect.open_reader(database) if reads_only else dialect.open_engine(database)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigurationError(
            f"{error}", f"install it: pip install 'cqrs-cli[{dialect.extra}]'"
        ) from error
    event.listen(engine, "commit", _reject_transaction_end)
    event.listen(engine, "rollback", _reject_transaction_end)
    return engine


def url_without_password(database: DatabaseAddress) -> str:
    """Return the database's URL without a password, for messages."""
    url: URL = make_url(database.url)
    return str(url.render_as_string(hide_password=True))


def read_only(engine: Engine) -> Engine:
    """Return the engine for read-only use. Its connections do not wait for writers, if the database supports this."""
    return engine.execution_options(**{READ_ONLY: True})


@contextmanager
def forbid_transaction_end(db: Connection) -> Iterator[None]:
    """Prevent commit and rollback within the block: rows and position must be one transaction.

    If an error of the database has ended the transaction, and the projection has caught this error, the block raises it
    again at its end.
    """
    info = db.info
    info[TRANSACTION_GUARD] = None
    try:
        yield
        if (error := info.get(TRANSACTION_GUARD)) is not None:
            raise error
    finally:
        info.pop(TRANSACTION_GUARD, None)


def _reject_transaction_end(db: Connection) -> None:
    if not db.invalidated and TRANSACTION_GUARD in db.info:
        # If the connection stayed valid, SQLAlchemy would regard the transaction as ended, and return the connection to
        # the pool while the transaction is still open.
        db.invalidate()
        raise RuntimeError(
            "a projection must not commit or roll back: its position is in the same transaction"
        )
