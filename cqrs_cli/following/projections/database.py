"""Opens the database of a projection with SQLAlchemy."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, event, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError

from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.following.projections.databases.address import DatabaseAddress
from cqrs_cli.following.projections.databases.dialect import KEPT, READS
from cqrs_cli.following.projections.databases.known import DIALECTS, dialect_of, find_dialect


def parse_database(text: str, root: Path, flag: str = "--to") -> DatabaseAddress:
    """Parse the URL in a flag; raises `UsageError` for an unusable URL. A relative file is below `root`."""
    try:
        url = make_url(text)
    except ArgumentError:
        raise UsageError(
            f"{flag}: not a URL of a database: {text[:80]!r}", "e.g. sqlite:///orders.db"
        ) from None
    dialect = find_dialect(url.drivername)
    if url.password:
        raise UsageError(
            f"{flag}: a password is not accepted on the command line",
            dialect.password if dialect else "leave it out",
        )
    if dialect is None:
        known = [one.example for one in DIALECTS]
        raise UsageError(
            f"{flag}: {url.drivername} is not supported", f"write {', '.join(known[:-1])} or {known[-1]}"
        )
    url = dialect.checked(url.set(drivername=dialect.driver), root, flag)
    return DatabaseAddress(url.render_as_string())


def open_database(place: DatabaseAddress) -> Engine:
    """Return an engine with transactions as projections need them. A connection ends with its use or its thread."""
    dialect = dialect_of(place)
    try:
        engine = dialect.open(place)
    except (NoSuchModuleError, ModuleNotFoundError) as error:
        raise ConfigurationError(
            f"{error}", f"install it: pip install 'cqrs-cli[{dialect.extra}]'"
        ) from error
    event.listen(engine, "commit", _refuse_ending)
    event.listen(engine, "rollback", _refuse_ending)
    return engine


def shown(place: DatabaseAddress) -> str:
    """Return the database's URL without a password, for messages."""
    url: URL = make_url(place.url)
    return str(url.render_as_string(hide_password=True))


def reading(engine: Engine) -> Engine:
    """Return the engine for read-only use: its connections do not wait for writers if the database allows that."""
    return engine.execution_options(**{READS: True})


@contextmanager
def transaction_kept(db: Connection) -> Iterator[None]:
    """Prevent commit and rollback within the block: rows and position must be one transaction.

    If the database ended the transaction with an error, and the projection continued, the block raises that error at
    its end.
    """
    info = db.info
    info[KEPT] = None
    try:
        yield
        if (ended := info.get(KEPT)) is not None:
            raise ended
    finally:
        info.pop(KEPT, None)


def _refuse_ending(db: Connection) -> None:
    if not db.invalidated and KEPT in db.info:
        # Otherwise SQLAlchemy takes the transaction for ended, and returns the connection to the pool with an open
        # transaction.
        db.invalidate()
        raise RuntimeError(
            "a projection neither commits nor rolls back: the transaction holds its position, too"
        )
