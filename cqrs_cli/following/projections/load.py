"""Loads projections by name: each module in the project's folder `projections` defines a `projection`."""

import collections.abc
import re
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cqrs_cli import registry
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.annotations import union_members
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.recorded import Recorded
from cqrs_cli.core.subscription_rule import check_hearing
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.projections.projection import Projection

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

_LISTS = (collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection, list)


@dataclass(frozen=True)
class LoadedProjection:
    """A loaded projection: the aggregates whose events it takes, and the classes of these events."""

    name: str
    projection: Projection
    aggregates: dict[str, Aggregate]
    events: frozenset[type[Event]]
    takes: tuple[str, ...]  # the names of the event types; "*": all types, including future types


def load_projection(
    name: str, root: Path, aggregates: str, aggregates_root: Path | None = None
) -> LoadedProjection:
    """Load the projection called `name` below `root`; `aggregates` is the package of the aggregates.

    Raises `UsageError` for an unknown name, `ConfigurationError` with file and line for unusable code.
    """
    base = aggregates_root or root
    among = registry.names(aggregates, base)  # also makes the aggregates importable
    module = registry.user_module(_PROJECTION, name, PACKAGE, root)
    projection: Projection = module.projection
    place = registry.place_of(projection.project, module, root)

    def refuse(problem: str) -> ConfigurationError:
        return ConfigurationError(f"{place}: {problem}", "correct the projection")

    _check_tables(projection, refuse)
    annotated = _annotated(projection.project, refuse)
    taken = registry.event_owners(annotated, among, aggregates, base, place)
    events = {kind for kind in annotated if kind is not Event}
    if Event in annotated:
        events.update(kind for aggregate in taken.values() for kind in aggregate.events.values())
    try:
        check_hearing(events, taken.values(), projection.keeps_personal)
    except TypeError as error:
        raise refuse(str(error)) from error
    takes = ["*"] if Event in annotated else sorted(kind.__name__ for kind in annotated)
    return LoadedProjection(name, projection, taken, frozenset(events), tuple(takes))


def _check_tables(projection: Projection, refuse: Callable[[str], ConfigurationError]) -> None:
    if type(projection.revision) is not int or projection.revision < 1:
        raise refuse(f"revision must be a whole number from 1 on, found {projection.revision!r}")
    tables = getattr(projection.metadata, "tables", None)
    if not tables:
        raise refuse("its metadata has no table")
    for table in tables.values():
        if table.schema is not None:
            raise refuse(
                f"table {table.name!r} names a schema: leave it out, the database's default one counts"
            )
        if table.name.startswith("cqrs_"):
            raise refuse(
                f"table {table.name!r}: names that begin with cqrs_ are not for tables of projections"
            )


def _annotated(
    project: Callable[..., Any], refuse: Callable[[str], ConfigurationError]
) -> Sequence[type[Event]]:
    """Return the event types in `Sequence[Recorded[Placed | Shipped]]`, the annotation of the second parameter."""
    try:
        hints = list(typing.get_type_hints(project).items())
    except (NameError, AttributeError, TypeError) as error:
        raise refuse(f"the annotations of project cannot be read: {error}") from error
    wanted = (
        "annotate its second parameter with Sequence[cqrs.Recorded[Placed | Shipped]], the events it takes"
    )
    hints = [(name, hint) for name, hint in hints if name != "return"]
    if len(hints) != 2 or typing.get_origin(hints[1][1]) not in _LISTS:
        raise refuse(wanted)
    (recorded,) = typing.get_args(hints[1][1])
    if typing.get_origin(recorded) is not Recorded:
        raise refuse(wanted)
    members = list(union_members(typing.get_args(recorded)[0]))
    for member in members:
        if not (isinstance(member, type) and issubclass(member, Event)):
            raise refuse(f"{wanted}; {member!r} is not one")
    return members
