"""The demo's read model: the orders of all demos as rows of a SQLite file, filled as `cqrs project` does."""

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from cqrs_cli.demo.project import PROJECTION
from cqrs_cli.kafka.connection.connection import Connection

if TYPE_CHECKING:
    from pathlib import Path

    from cqrs_cli.settings.settings import Settings

#: The database file in the project folder; each demo fills it from the first event on.
DATABASE_FILE = "orders.db"

#: The table, and the maximum number of rows to show.
_TABLE, _MAX_ROWS = "recent_orders", 5


class ReadModel(NamedTuple):
    """The latest rows of the table, newest first."""

    order: str  # id of the order of this demo
    rows: list[dict[str, Any]]

    @property
    def unexpected_results(self) -> list[str]:
        """One sentence if the order is not in the rows with status `cancelled`."""
        statuses = [row["status"] for row in self.rows if row["order_id"] == self.order]
        if statuses == ["cancelled"]:
            return []
        status_text = f"has the status {', '.join(statuses)}" if statuses else "is missing"
        return [f"{self.order} {status_text} in table {_TABLE}, expected the status cancelled"]


def fill_read_model(settings: "Settings", connection: Connection, order: str) -> ReadModel | None:
    """Project the existing events and return the rows; None without SQLAlchemy."""
    if find_spec("sqlalchemy") is None:
        return None
    from sqlalchemy import select

    from cqrs_cli.following.projections.database import open_database, parse_database
    from cqrs_cli.following.projections.load import load_projection
    from cqrs_cli.following.projections.prepare import prepare_projection, stable_ends
    from cqrs_cli.following.projections.runner import project_partitions

    loaded_projection = load_projection(PROJECTION, settings.root, settings.aggregates)
    _remove_database(settings.root)
    address = parse_database(f"sqlite:///{DATABASE_FILE}", settings.root)
    live_plan = prepare_projection(settings, connection, loaded_projection, address, _ignore).live
    plan = replace(live_plan, end_offsets=stable_ends(live_plan))
    for result in project_partitions(plan, plan.sources, loaded_projection, _ignore):
        if result.error is not None:
            raise result.error
    table = loaded_projection.projection.metadata.tables[_TABLE]
    engine = open_database(address)
    try:
        with engine.connect() as db:
            latest = db.execute(select(table).order_by(table.c.placed_at.desc()).limit(_MAX_ROWS))
            return ReadModel(order, [dict(row) for row in latest.mappings()])
    finally:
        engine.dispose()


def _remove_database(root: "Path") -> None:
    """Remove the file of an earlier demo, whose events may be from another broker."""
    for suffix in ("", "-wal", "-shm"):
        (root / f"{DATABASE_FILE}{suffix}").unlink(missing_ok=True)


def _ignore(_: object) -> None:
    """Discard a progress report, because the projection ends soon."""
