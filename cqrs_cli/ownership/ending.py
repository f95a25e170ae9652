"""The end of a partition's thread."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from cqrs_cli.errors import CqrsError

_P = TypeVar("_P")


@dataclass(frozen=True, slots=True)
class Ending(Generic[_P]):
    """The end of the owners of one partition: a quiet one (`error` None), or the error that ends the run."""

    owned: _P
    error: CqrsError | None = None
    notes: tuple[str, ...] = ()
    cpu: float = 0.0  # seconds of its whole task, in the result of the task's first partition

    @property
    def about(self) -> str:
        """The name that its notes are told once for: what concerns one partition alone names it."""
        raise NotImplementedError
