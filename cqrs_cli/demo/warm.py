"""Spark's workers, started while there is nothing to decide yet: the broker starts, topics are made."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

from cqrs_cli.jobs.engine.slots import slots

if TYPE_CHECKING:
    from pyspark import SparkContext

#: The run of the demo has no more tasks than these.
_MOST = 8


def warm_session(stack: ExitStack, session: "AbstractContextManager[SparkContext]") -> "SparkContext":
    """The session, entered on the stack, with workers that have loaded what a run's task needs: Spark keeps them."""
    context = stack.enter_context(session)
    tasks = min(slots(context), _MOST)
    context.parallelize(range(tasks), tasks).mapPartitions(_load).count()
    return context


def _load(numbers: Iterable[int]) -> Iterator[int]:
    """The work of a warm-up's task: its worker loads the modules of a run."""
    import cqrs_cli.runs.task  # noqa: F401  # this is the work

    yield from numbers
