"""The number of tasks that run at once, and waiting for cores where another application holds them."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cqrs_cli.errors import UnavailableError
from cqrs_cli.jobs.engine.holders import UI_PORT, who_holds

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Seconds to wait for a cluster's executors, and seconds without another one after which they count as complete.
EXECUTORS_WITHIN = 60.0
_COMPLETE_AFTER = 1.0

#: Seconds without an executor after which it is said that cores are waited for: one that starts needs two.
SAID_AFTER = 4.0


def slots(
    context: "SparkContext", within: float = EXECUTORS_WITHIN, note: Callable[[str], None] | None = None
) -> int:
    """The number of tasks that run at once. Waits for the executors; raises `UnavailableError` if none registers.

    `note` is told when it takes long, and who holds the cores of a standalone master.
    """
    per_task = int(context.getConf().get("spark.task.cpus", "1"))
    began = time.monotonic()
    complete_after = 0.0 if str(context.master).startswith("local") else _COMPLETE_AFTER
    found, since = 0, began
    while not found or time.monotonic() - since < complete_after:
        cores = _cores(context)
        if cores != found:
            found, since = cores, time.monotonic()
        if not found and time.monotonic() - began > within:
            raise UnavailableError(
                f"{context.master} gave no executor within {within:.0f} s{_why(context, ': ')}",
                "start workers, or free cores: stop what holds them",
            )
        if not found and note is not None and time.monotonic() - began > min(SAID_AFTER, within / 2):
            note(f"waiting for cores of {context.master}{_why(context, ': ')}")
            note = None
        time.sleep(0 if found and not complete_after else 0.05)
    return max(1, found // per_task)


def _why(context: "SparkContext", before: str) -> str:
    port = context.getConf().get("spark.master.ui.port", UI_PORT)
    told = who_holds(str(context.master), port, str(context.applicationId))
    return f"{before}{told}" if told else ""


def _cores(context: "SparkContext") -> int:
    """The cores of all executors that have registered; a local master's are the driver's."""
    executors = context._jsc.sc().statusStore().executorList(True)
    return sum(int(executors.apply(i).totalCores()) for i in range(executors.size()))
