"""The number of tasks that run at once, and the wait for cores that another application holds."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from cqrs_cli.errors import UnavailableError
from cqrs_cli.jobs.engine.session import setting

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Timeout in seconds for a cluster's executors, and seconds without a further executor after which they are complete.
EXECUTORS_WITHIN = 60.0
_COMPLETE_AFTER = 1.0

#: The default port of a master's web UI.
UI_PORT = "8080"

#: The largest number of tasks to list: all tasks of a stage.
_ALL = 1_000_000

#: Timeout in seconds for an answer of a master.
_PATIENCE = 2.0

_HOST = re.compile(r"(?:spark://|,)(\[[^]]+\]|[^:,]+):\d+")

#: Seconds without an executor until a message reports the wait. The start of an executor takes two seconds.
SAID_AFTER = 4.0


def slots(
    context: "SparkContext",
    within: float = EXECUTORS_WITHIN,
    note: Callable[[str], None] | None = None,
    said_after: float = SAID_AFTER,
) -> int:
    """Return the number of tasks that run at once. Waits for the executors; raises `UnavailableError` if none
    registers.

    `note` gets a message after a long wait, with the applications that hold the cores of a standalone master.
    """
    began = time.monotonic()
    complete_after = 0.0 if str(context.master).startswith("local") else _COMPLETE_AFTER
    found, since = 0, began
    while not found or time.monotonic() - since < complete_after:
        cores = _cores(_executors(context))
        if cores != found:
            found, since = cores, time.monotonic()
        if not found and time.monotonic() - began > within:
            raise UnavailableError(
                f"{context.master} gave no executor within {within:.0f} s{_why(context, ': ')}",
                "start workers, or free cores: stop what holds them",
            )
        if not found and note is not None and time.monotonic() - began > min(said_after, within / 2):
            note(f"waiting for cores of {context.master}{_why(context, ': ')}")
            note = None
        time.sleep(0 if found and not complete_after else 0.05)
    return max(1, found // _cores_per_task(context))


def _why(context: "SparkContext", before: str) -> str:
    port = setting(context, "spark.master.ui.port") or UI_PORT
    told = who_holds(str(context.master), port, str(context.applicationId))
    return f"{before}{told}" if told else ""


class Slots(NamedTuple):
    """The current slots and executors."""

    slots: int  # tasks that can run at once on executors that accept tasks
    busy: int  # tasks that run, on any executor
    drained: frozenset[str]  # executors that accept no further tasks, and exit after their last task


def slots_now(context: "SparkContext") -> Slots:
    """Return the current slots, and the executors that are drained. Spark's term for draining is decommissioning."""
    executors, scheduler = _executors(context), context._jsc.sc().taskScheduler()
    drained = frozenset(str(one.id()) for one in executors if scheduler.isExecutorDecommissioned(one.id()))
    cores = _cores(one for one in executors if one.id() not in drained)
    busy = sum(int(one.activeTasks()) for one in executors)
    return Slots(cores // _cores_per_task(context), busy, drained)


def executors_of(context: "SparkContext", group: str) -> set[str]:
    """Return the executors on which tasks of a job group run now."""
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [(stage, tracker.getStageInfo(stage)) for job in jobs if job for stage in job.stageIds]
    found = [store.taskList(stage, info.currentAttemptId, _ALL) for stage, info in stages if info]
    tasks = [task for some in found for task in _listed(some)]
    return {str(task.executorId()) for task in tasks if task.status() == "RUNNING"}


def _listed(found: Any) -> list[Any]:
    """Return the elements of a Scala list."""
    return [found.apply(number) for number in range(found.size())]


def _cores_per_task(context: "SparkContext") -> int:
    return int(setting(context, "spark.task.cpus") or 1)


def _executors(context: "SparkContext") -> list[Any]:
    """Return the registered executors; with a local master, the driver is the executor."""
    return _listed(context._jsc.sc().statusStore().executorList(True))


def _cores(executors: Iterable[Any]) -> int:
    return sum(int(executor.totalCores()) for executor in executors)


def who_holds(master: str, ui_port: str, own: str) -> str:
    """Return the reason why a standalone master gives the application `own` no executor; empty for other masters.

    If there are several masters, the active master is asked.
    """
    if not master.startswith("spark://"):
        return ""
    asked = [f"http://{host}:{ui_port}/json/" for host in _HOST.findall(master)]
    for url in asked:
        told = _ask(url)
        if told is not None and told.get("status", "ALIVE") == "ALIVE":
            return explain_state(told, own)
    return (
        f"its web UI does not answer at {' or '.join(asked)}: with its port "
        "(--conf spark.master.ui.port=N) it is said who holds the cores"
    )


def _ask(url: str) -> dict[str, Any] | None:
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=_PATIENCE) as answer:
            told = json.loads(answer.read(10_000_000))
    except (OSError, ValueError):
        return None
    return told if isinstance(told, dict) and isinstance(told.get("activeapps"), list) else None


def explain_state(told: Mapping[str, Any], own: str) -> str:
    """Describe the state of a master in one line: the applications that hold its cores, and how many."""
    total, used = int(told.get("cores", 0)), int(told.get("coresused", 0))
    if not total:
        return "it has no workers"
    others = [app for app in told["activeapps"] if app.get("id") != own]
    held = [
        f"{app.get('name', '?')} ({app.get('id', '?')}, user {app.get('user', '?')}) holds {app['cores']}"
        for app in others
        if int(app.get("cores", 0))
    ]
    waiting = sum(app.get("state") == "WAITING" for app in others)
    behind = f"; {waiting} more wait" if waiting else ""
    if used < total:
        free = f"{total - used} of its {total} cores are free: has a worker memory for spark.executor.memory?"
        return "; ".join([free, *held]) + behind
    return f"all of its {total} cores are held: {'; '.join(held) or 'by applications that end'}{behind}"
