"""Opens the database of a projection by SQLAlchemy."""

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
    """The place that a flag's URL names; raises `UsageError` for one that cannot be used. A relative file is below
    `root`.
    """
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
    """An engine whose transactions are what projecting needs. No connection outlives its use or its thread."""
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
    """The database's name for people, without a password."""
    url: URL = make_url(place.url)
    return str(url.render_as_string(hide_password=True))


def reading(engine: Engine) -> Engine:
    """The engine for looking only: it waits for no writer where the database allows that."""
    return engine.execution_options(**{READS: True})


@contextmanager
def transaction_kept(db: Connection) -> Iterator[None]:
    """Within the block the transaction can be neither committed nor rolled back: rows and position belong together.

    Raises at its end what the database ended the transaction with, if a projection went on after that.
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
        # Else the connection would go back to its pool with the transaction still open: SQLAlchemy takes it for ended.
        db.invalidate()
        raise RuntimeError(
            "a projection neither commits nor rolls back: the transaction holds its position, too"
        )
