"""The demo's read model: the orders of all performances as rows of a SQLite file, filled as `cqrs project` does."""

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from cqrs_cli.demo.project import PROJECTION
from cqrs_cli.kafka.connection.connection import Connection

if TYPE_CHECKING:
    from pathlib import Path

    from cqrs_cli.settings.settings import Settings

#: The database file in the project folder; each performance fills it again from the first event on.
_DATABASE = "orders.db"

#: The table, and the number of rows to show.
_TABLE, _ROWS = "recent_orders", 5


class ReadModel(NamedTuple):
    """The latest rows of the table, newest first."""

    order: str
    rows: list[dict[str, Any]]

    @property
    def surprises(self) -> list[str]:
        """One sentence if the order is not in the rows with status `cancelled`."""
        found = [row["status"] for row in self.rows if row["order_id"] == self.order]
        return [] if found == ["cancelled"] else [f"{self.order} stands in {_TABLE} as {found or 'nothing'}"]


def fill_read_model(settings: "Settings", connection: Connection, order: str) -> ReadModel | None:
    """Project the existing events and return the rows; None without SQLAlchemy."""
    if find_spec("sqlalchemy") is None:
        return None
    from sqlalchemy import select

    from cqrs_cli.following.projections.database import open_database, parse_database
    from cqrs_cli.following.projections.load import load_projection
    from cqrs_cli.following.projections.prepare import prepare_projection, stable_ends
    from cqrs_cli.following.projections.runner import project_partitions

    loaded = load_projection(PROJECTION, settings.root, settings.aggregates)
    _remove_database(settings.root)
    place = parse_database(f"sqlite:///{_DATABASE}", settings.root)
    live = prepare_projection(settings, connection, loaded, place, _ignore).live
    plan = replace(live, targets=stable_ends(live))
    for result in project_partitions(plan, plan.sources, loaded, _ignore):
        if result.error is not None:
            raise result.error
    table = loaded.projection.metadata.tables[_TABLE]
    engine = open_database(place)
    try:
        with engine.connect() as db:
            found = db.execute(select(table).order_by(table.c.placed_at.desc()).limit(_ROWS))
            return ReadModel(order, [dict(row) for row in found.mappings()])
    finally:
        engine.dispose()


def _remove_database(root: "Path") -> None:
    """Remove the file of an earlier performance, which may come from another broker's topics."""
    for suffix in ("", "-wal", "-shm"):
        (root / f"{_DATABASE}{suffix}").unlink(missing_ok=True)


def _ignore(_: object) -> None:
    """Discard a note, because the run is too short for notes."""
