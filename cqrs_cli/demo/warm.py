"""Spark's workers, started while there is nothing to decide yet: the broker starts, topics are made."""

from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

from cqrs_cli.jobs.engine.slots import slots

if TYPE_CHECKING:
    from pyspark import SparkContext

#: The run of the demo has no more tasks than these.
_MOST = 8


def warm_session(stack: ExitStack, session: "AbstractContextManager[SparkContext]") -> "SparkContext":
    """The session, entered on the stack, with workers that have begun: Spark keeps them for a run's tasks."""
    context = stack.enter_context(session)
    tasks = min(slots(context), _MOST)
    context.parallelize(range(tasks), tasks).count()
    return context
