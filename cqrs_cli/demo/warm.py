"""Starts Spark's workers early, while the broker starts and the topics are created."""

from contextlib import AbstractContextManager, ExitStack
from typing import TYPE_CHECKING

from cqrs_cli.jobs.engine.slots import wait_for_slots

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Maximum number of tasks of the demo's run.
_MAX_TASKS = 8


def warm_session(stack: ExitStack, session: "AbstractContextManager[SparkContext]") -> "SparkContext":
    """Enter the session on the stack and start its Python workers, which Spark reuses for the tasks of a run."""
    context = stack.enter_context(session)
    tasks = min(wait_for_slots(context), _MAX_TASKS)
    context.parallelize(range(tasks), tasks).count()
    return context
