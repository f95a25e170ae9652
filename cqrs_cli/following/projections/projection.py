"""The class with which a project defines a projection."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cqrs_cli.core.recorded import Recorded

if TYPE_CHECKING:
    from sqlalchemy import Connection, MetaData


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
