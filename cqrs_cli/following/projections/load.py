"""Projections by name: the modules of the project's folder `projections`, each ending in a `projection`."""

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
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.projections.projection import Projection

#: The package with the projections.
PACKAGE = "projections"

# A schema and a file are named after it, and PostgreSQL cuts names at 63 bytes.
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,49}")

_LISTS = (collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection, list)


@dataclass(frozen=True)
class LoadedProjection:
    """A projection made ready: the aggregates whose events it takes, and the classes of these events."""

    name: str
    projection: Projection
    aggregates: dict[str, Aggregate]
    events: frozenset[type[Event]]
    takes: tuple[str, ...]  # the names of the events, or * for all there will ever be


def load_projection(
    name: str, root: Path, aggregates: str, aggregates_root: Path | None = None
) -> LoadedProjection:
    """The projection called `name` below `root`; `aggregates` is their package.

    Raises `UsageError` if there is none, `ConfigurationError` naming file and line if its code cannot be used.
    """
    registry.require_known("projection", name, registry.names(PACKAGE, root), PACKAGE, root)
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"projection {name!r} cannot be part of a table's name",
            "rename its file: letters, digits, _; at most 50",
        )
    base = aggregates_root or root
    among = registry.names(aggregates, base)  # so that the projection can import them
    module = registry.user_module(name, PACKAGE, root, "projection")
    projection = getattr(module, "projection", None)
    if not isinstance(projection, Projection):
        raise ConfigurationError(
            f"{registry.spell_file(module.__file__, root)} defines no projection",
            "end it with `projection = cqrs.Projection(project, metadata)`",
        )

    def refuse(problem: str, hint: str = "correct the projection") -> ConfigurationError:
        place = registry.place_of(projection.project, module, root)
        return ConfigurationError(f"{place}: {problem}", hint)

    _check_tables(projection, refuse)
    taken: dict[str, Aggregate] = {}
    events: set[type[Event]] = set()
    annotated = _annotated(projection.project, refuse)
    for kind in annotated:
        owners = registry.event_owners(kind, among, aggregates, base)
        if not owners:
            raise refuse(
                f"{kind.__module__}.{kind.__name__} is not an event of an aggregate of this project",
                f"known aggregates: {', '.join(among) or 'none'}",
            )
        for aggregate in owners:
            taken[aggregate.name] = aggregate
            events.update(aggregate.events.values() if kind is Event else [kind])
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
    """The events in `Sequence[Recorded[Placed | Shipped]]`, the annotation of the second parameter."""
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
