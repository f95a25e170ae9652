"""The number of tasks that run at once, and waiting for cores where another application holds them."""

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

#: Seconds to wait for a cluster's executors, and seconds without another one after which they count as complete.
EXECUTORS_WITHIN = 60.0
_COMPLETE_AFTER = 1.0

#: The web UI's port of a master for which nobody has chosen another.
UI_PORT = "8080"

#: Tasks to list at most: all of a stage.
_ALL = 1_000_000

#: Seconds for an answer.
_PATIENCE = 2.0

_HOST = re.compile(r"(?:spark://|,)(\[[^]]+\]|[^:,]+):\d+")

#: Seconds without an executor after which it is said that cores are waited for: one that starts needs two.
SAID_AFTER = 4.0


def slots(
    context: "SparkContext",
    within: float = EXECUTORS_WITHIN,
    note: Callable[[str], None] | None = None,
    said_after: float = SAID_AFTER,
) -> int:
    """The number of tasks that run at once. Waits for the executors; raises `UnavailableError` if none registers.

    `note` is told when it takes long, and who holds the cores of a standalone master.
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
    """The executors as they are now."""

    slots: int  # tasks that can run at once on those that take tasks
    busy: int  # tasks that run, wherever
    drained: frozenset[str]  # those that take no other tasks, and end once they have none


def slots_now(context: "SparkContext") -> Slots:
    """The slots that there are, and the executors that are being drained. Spark calls that decommissioned."""
    executors, scheduler = _executors(context), context._jsc.sc().taskScheduler()
    drained = frozenset(str(one.id()) for one in executors if scheduler.isExecutorDecommissioned(one.id()))
    cores = _cores(one for one in executors if one.id() not in drained)
    busy = sum(int(one.activeTasks()) for one in executors)
    return Slots(cores // _cores_per_task(context), busy, drained)


def executors_of(context: "SparkContext", group: str) -> set[str]:
    """The executors on which tasks of a job group run now."""
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [(stage, tracker.getStageInfo(stage)) for job in jobs if job for stage in job.stageIds]
    found = [store.taskList(stage, info.currentAttemptId, _ALL) for stage, info in stages if info]
    tasks = [task for some in found for task in _listed(some)]
    return {str(task.executorId()) for task in tasks if task.status() == "RUNNING"}


def _listed(found: Any) -> list[Any]:
    """The elements of a list of Spark's."""
    return [found.apply(number) for number in range(found.size())]


def _cores_per_task(context: "SparkContext") -> int:
    return int(setting(context, "spark.task.cpus") or 1)


def _executors(context: "SparkContext") -> list[Any]:
    """Those that have registered; a local master's is the driver."""
    return _listed(context._jsc.sc().statusStore().executorList(True))


def _cores(executors: Iterable[Any]) -> int:
    return sum(int(executor.totalCores()) for executor in executors)


def who_holds(master: str, ui_port: str, own: str) -> str:
    """The reason why a standalone master gives the application `own` no executor; empty for other masters.

    Of several masters the one that is alive knows.
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
    """The state of a master in one line: who holds how many of its cores."""
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
