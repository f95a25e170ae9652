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
    notes: tuple[str, ...] = ()
    cpu_seconds: float = (
        0.0  # CPU seconds of the whole task, only in the result of the task's first partition
    )

    @property
    def subject(self) -> str:
        """The group, such as the aggregate, whose partitions show equal notes only once.

        A note about a single partition must therefore contain the partition.
        """
        raise NotImplementedError
