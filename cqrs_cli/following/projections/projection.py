"""The class with which a project defines a projection."""

import collections.abc
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cqrs_cli.core.aggregate.annotations import union_members
from cqrs_cli.core.aggregate.decider import Event
from cqrs_cli.core.recorded import Recorded

if TYPE_CHECKING:
    from sqlalchemy import Connection, MetaData

_SEQUENCE_TYPES = (collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection, list)


@dataclass(frozen=True, slots=True)
class Projection:
    """A read model as a value: tables, and a function that writes events into them.

    `project(db, events)` writes the rows of a batch; the events of an aggregate come in order, each once. The
    annotation `Sequence[Recorded[Placed | Shipped]]` selects the event types. `project` must not commit or roll back
    the transaction. Raise `revision` with each change of the tables or of their meaning: then shadow tables are filled
    and swapped with the live tables. `keeps_personal`: the reason why personal values stay in the tables after they are
    erased in the log.
    """

    project: "Callable[[Connection, Sequence[Recorded[Any]]], None]"
    metadata: "MetaData"
    revision: int = 1
    keeps_personal: str | None = None


def projected_events(projection: Projection) -> list[type[Event]]:
    """Return the event types in `Sequence[Recorded[Placed | Shipped]]`, the annotation of `project`'s second parameter.

    Raises `TypeError` for another annotation.
    """
    try:
        annotations = list(typing.get_type_hints(projection.project).items())
    except (NameError, AttributeError, TypeError) as error:
        raise TypeError(f"the annotations of project cannot be read: {error}") from error
    hint = "annotate its second parameter with the event types, such as Sequence[cqrs.Recorded[Placed | Shipped]]"
    annotations = [(name, annotation) for name, annotation in annotations if name != "return"]
    if len(annotations) != 2 or typing.get_origin(annotations[1][1]) not in _SEQUENCE_TYPES:
        raise TypeError(hint)
    (recorded_type,) = typing.get_args(annotations[1][1])
    if typing.get_origin(recorded_type) is not Recorded:
        raise TypeError(hint)
    event_types = list(union_members(typing.get_args(recorded_type)[0]))
    for event_type in event_types:
        if not (isinstance(event_type, type) and issubclass(event_type, Event)):
            raise TypeError(f"{hint}; {event_type!r} is not an event type")
    return event_types
