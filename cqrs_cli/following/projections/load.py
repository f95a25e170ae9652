"""Loads projections by name: each module in the project's folder `projections` defines a `projection`."""

import re
from dataclasses import dataclass
from pathlib import Path

from cqrs_cli import registry
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.subscription_rule import check_subscription
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.projections.projection import Projection, projected_events

PACKAGE = "projections"

_PROJECTION = registry.UserCode(
    "projection",
    "projection",
    Projection,
    "projection = cqrs.Projection(project, metadata)",
    # Schemas and files are named after the projection, and PostgreSQL truncates names at 63 bytes.
    re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}"),
    "a table's name",
    "letters, digits, _; at most 50",
)


@dataclass(frozen=True)
class LoadedProjection:
    """A loaded projection."""

    name: str
    projection: Projection
    aggregates: dict[str, Aggregate]  # name → aggregate whose events are projected
    events: frozenset[type[Event]]  # classes of the projected events
    event_names: tuple[str, ...]  # the names of the event types; "*": all types, including future types


def load_projection(
    name: str, root: Path, aggregates: str, aggregates_root: Path | None = None
) -> LoadedProjection:
    """Load the projection called `name` below `root`; `aggregates` is the package of the aggregates.

    Raises `UsageError` for an unknown name, `ConfigurationError` with file and line for unusable code.
    """
    aggregates_folder = aggregates_root or root
    aggregate_names = registry.names(aggregates, aggregates_folder)  # also makes the aggregates importable
    module = registry.user_module(_PROJECTION, name, PACKAGE, root)
    projection: Projection = module.projection
    location = registry.location_of(projection.project, module, root)

    try:
        _check_tables(projection)
        event_types = projected_events(projection)
        aggregates_read = registry.event_owners(
            event_types, aggregate_names, aggregates, aggregates_folder, location
        )
        events = {event_type for event_type in event_types if event_type is not Event}
        if Event in event_types:
            events.update(
                event for aggregate in aggregates_read.values() for event in aggregate.events.values()
            )
        check_subscription(events, aggregates_read.values(), projection.keeps_personal)
    except TypeError as error:
        raise ConfigurationError(f"{location}: {error}", "correct the projection's code") from error
    event_names = ["*"] if Event in event_types else sorted(event_type.__name__ for event_type in event_types)
    return LoadedProjection(name, projection, aggregates_read, frozenset(events), tuple(event_names))


def _check_tables(projection: Projection) -> None:
    """Raise `TypeError` for a wrong revision or wrong tables."""
    if type(projection.revision) is not int or projection.revision < 1:
        raise TypeError(f"revision must be a whole number of at least 1, found {projection.revision!r}")
    tables = getattr(projection.metadata, "tables", None)
    if not tables:
        raise TypeError("its metadata has no table")
    for table in tables.values():
        if table.schema is not None:
            raise TypeError(
                f"table {table.name!r} has a schema: leave it out, the tables are in the database's default schema"
            )
        if table.name.startswith("cqrs_"):
            raise TypeError(f"table {table.name!r}: names that begin with cqrs_ are reserved")
