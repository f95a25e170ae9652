"""The vocabulary of a projection: what its author writes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cqrs_cli.core.recorded import Recorded

if TYPE_CHECKING:
    from sqlalchemy import Connection, MetaData


@dataclass(frozen=True, slots=True)
class Projection:
    """A read model as a value: tables, and the function that brings events into them.

    `project(db, events)` writes the rows of a batch; events of one aggregate come in order, each once. Its annotation
    `Sequence[Recorded[Placed | Shipped]]` says which. The transaction is not its own: it neither commits nor rolls
    back. Raise `revision` whenever its tables or its meaning change: they are filled again beside the present ones,
    then exchanged. `keeps_personal`: why it keeps personal fields of events that are erased in the log.
    """

    project: "Callable[[Connection, Sequence[Recorded[Any]]], None]"
    metadata: "MetaData"
    revision: int = 1
    keeps_personal: str | None = None
