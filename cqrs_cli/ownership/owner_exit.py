"""The result of a partition's thread."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from cqrs_cli.errors import CqrsError

_P = TypeVar("_P")


@dataclass(frozen=True, slots=True)
class OwnerExit(Generic[_P]):
    """The result of the owners of one partition: a clean end (`error` is None), or the error that ends the run."""

    partition: _P
    error: CqrsError | None = None
    notes: tuple[str, ...] = ()  # equal notes of a run are shown once, so a note about one partition names it
    #: CPU seconds of the whole task, only in the result of the task's first partition.
    cpu_seconds: float = 0.0
