"""Specifications of projections: when events, then rows, with tables in memory."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.core.subscription_rule import check_erasure
from cqrs_cli.following.projections.projection import Projection, projected_events
from cqrs_cli.testing.round_trip import BrokenLaw

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table


def projection(projection: Projection) -> "ProjectionSpec":
    """Return a specification of a projection. Needs SQLAlchemy; its database is SQLite in memory.

    Raises `TypeError` if its annotations are wrong, or if it must also subscribe to `cqrs.Erased`.
    """
    event_types = tuple(projected_events(projection))
    check_erasure(event_types, projection.keeps_personal)
    return ProjectionSpec(projection, event_types)


@dataclass(frozen=True)
class ProjectionSpec:
    """A projection, the event types of its subscription, and the events that it has projected so far."""

    projection: Projection
    event_types: tuple[type[Event], ...]
    recorded: tuple[Recorded[Any], ...] = ()

    def when(
        self,
        *events: Event,
        aggregate_id: str = "id-1",
        time: datetime = datetime(2000, 1, 1, tzinfo=UTC),
    ) -> "ProjectionSpec":
        """Return the specification with further events of an aggregate.

        Raises `TypeError` if the projection subscribes to all events, one of these events has personal fields, and the
        projection must therefore also subscribe to `cqrs.Erased`.
        """
        if Event in self.event_types:
            check_erasure({*self.event_types, *map(type, events)}, self.projection.keeps_personal)
        version = sum(recorded.aggregate_id == aggregate_id for recorded in self.recorded)
        offset = len(self.recorded)
        new = [
            Recorded(
                event,
                aggregate_id,
                version + number,
                time,
                f"0/0/{offset + number}",
                "command-1",
                "command-1",
                0,
                offset + number,
            )
            for number, event in enumerate(events, 1)
        ]
        return replace(self, recorded=(*self.recorded, *new))

    def rows(self, table: "Table", *expected: Mapping[str, object]) -> "ProjectionSpec":
        """Check that the table has exactly these rows, in any order.

        Raises `BrokenLaw` if batches of one event lead to other rows than one batch of all events.
        """
        __tracebackhide__ = True
        rows = self._rows_after(table, [self.recorded] if self.recorded else [])
        rows_of_singles = self._rows_after(table, [(recorded,) for recorded in self.recorded])
        if _row_counts(rows_of_singles) != _row_counts(rows):
            raise BrokenLaw(
                "batches of one event give other rows than one batch of all",
                *(f"singly {row}" for row in rows_of_singles),
                *(f"together {row}" for row in rows),
                function=self.projection.project,
            )
        if _row_counts(rows) != _row_counts(expected):
            lines = [
                "when:",
                *(f"  {recorded.aggregate_id}: {recorded.event!r}" for recorded in self.recorded),
            ]
            for title, rows_of_title in (("expected", expected), ("found", rows)):
                lines += [f"{title}:", *([f"  {dict(row)}" for row in rows_of_title] or ["  no row"])]
            if _row_counts(rows) == _row_counts(map(_without_zones, expected)):
                lines.append(
                    "hint: SQLite returns times without a zone, in UTC: expect datetime(…) without tzinfo"
                )
            raise AssertionError("\n".join(lines))
        return self

    def _rows_after(
        self, table: "Table", batches: Iterable[Sequence[Recorded[Any]]]
    ) -> list[Mapping[str, object]]:
        """Return the table's rows after these batches."""
        from sqlalchemy import select

        with _memory_database() as db:
            self.projection.metadata.create_all(db)
            for batch in batches:
                self.projection.project(db, batch)
            return [dict(row) for row in db.execute(select(table)).mappings()]


@contextmanager
def _memory_database() -> "Iterator[Connection]":
    from sqlalchemy import create_engine

    engine = create_engine("sqlite://")
    try:
        with engine.begin() as db:
            yield db
    finally:
        engine.dispose()


def _without_zones(row: Mapping[str, object]) -> dict[str, object]:
    """Return the row with its times in UTC, without a time zone."""
    return {
        name: value.astimezone(UTC).replace(tzinfo=None)
        if isinstance(value, datetime) and value.tzinfo
        else value
        for name, value in row.items()
    }


def _row_counts(rows: Iterable[Mapping[str, object]]) -> Counter[str]:
    """Return the number of occurrences of each row, by the row as text."""
    return Counter(repr(sorted(row.items())) for row in rows)
