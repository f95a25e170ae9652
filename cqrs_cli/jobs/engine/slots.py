"""The number of tasks that run at once, and the wait for cores that another application holds."""

import json
import re
import time
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from cqrs_cli.errors import UnavailableError
from cqrs_cli.jobs.engine.session import session_property

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Timeout in seconds for the first executor of a cluster.
EXECUTOR_TIMEOUT = 60.0

#: When no further executor has registered for this number of seconds, all executors count as registered.
_REGISTRATION_PAUSE = 1.0

#: The default port of a master's web UI.
UI_PORT = "8080"

#: The maximum number of tasks of a stage to list; no stage has so many.
_MAX_TASKS = 1_000_000

#: Timeout in seconds for an answer of a master.
_MASTER_TIMEOUT = 2.0

#: Matches the host of each master in a URL such as `spark://a:7077,b:7077`.
_HOST = re.compile(r"(?:spark://|,)(\[[^]]+\]|[^:,]+):\d+")

#: Seconds without an executor until a message reports the wait. The start of an executor takes two seconds.
REPORT_AFTER = 4.0


def wait_for_slots(
    context: "SparkContext",
    timeout: float = EXECUTOR_TIMEOUT,
    report: Callable[[str], None] | None = None,
    report_after: float = REPORT_AFTER,
) -> int:
    """Wait for the executors, and return the number of tasks that can run at once. Raises `UnavailableError` if no
    executor registers within `timeout` seconds.

    After `report_after` seconds without an executor, `report` gets a message. It names the applications that hold the
    cores of a standalone master.
    """
    started_at = time.monotonic()
    registration_pause = 0.0 if str(context.master).startswith("local") else _REGISTRATION_PAUSE
    core_count, last_change = 0, started_at
    while not core_count or time.monotonic() - last_change < registration_pause:
        cores = _core_count(_registered_executors(context))
        if cores != core_count:
            core_count, last_change = cores, time.monotonic()
        if not core_count and time.monotonic() - started_at > timeout:
            raise UnavailableError(
                f"{context.master} gave no executor within {timeout:.0f} s{_describe_core_holders(context, ': ')}",
                "start workers, or stop applications to free their cores",
            )
        if (
            not core_count
            and report is not None
            and time.monotonic() - started_at > min(report_after, timeout / 2)
        ):
            report(f"waiting for cores of {context.master}{_describe_core_holders(context, ': ')}")
            report = None
        time.sleep(0 if core_count and not registration_pause else 0.05)
    return max(1, core_count // _cores_per_task(context))


def _describe_core_holders(context: "SparkContext", prefix: str) -> str:
    """Return `prefix` and the applications that hold the cores; an empty text if the applications are unknown."""
    port = session_property(context, "spark.master.ui.port") or UI_PORT
    text = describe_holders(str(context.master), port, str(context.applicationId))
    return f"{prefix}{text}" if text else ""


class Slots(NamedTuple):
    """The slots and drained executors at one time. A slot can run one task."""

    slots: int  # number of tasks that can run at once on executors that accept tasks
    busy: int  # number of running tasks, on any executor
    drained: frozenset[str]  # ids of executors that accept no further tasks, and exit after their last task


def current_slots(context: "SparkContext") -> Slots:
    """Return the slots and drained executors now. Spark's term for draining is decommissioning."""
    executors, scheduler = _registered_executors(context), context._jsc.sc().taskScheduler()
    drained = frozenset(
        str(executor.id()) for executor in executors if scheduler.isExecutorDecommissioned(executor.id())
    )
    cores = _core_count(executor for executor in executors if executor.id() not in drained)
    busy = sum(int(executor.activeTasks()) for executor in executors)
    return Slots(cores // _cores_per_task(context), busy, drained)


def executors_of(context: "SparkContext", group: str) -> set[str]:
    """Return the ids of the executors on which tasks of the job group `group` run now."""
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [(stage, tracker.getStageInfo(stage)) for job in jobs if job for stage in job.stageIds]
    task_lists = [store.taskList(stage, info.currentAttemptId, _MAX_TASKS) for stage, info in stages if info]
    tasks = [task for task_list in task_lists for task in _scala_list(task_list)]
    return {str(task.executorId()) for task in tasks if task.status() == "RUNNING"}


def _scala_list(scala_list: Any) -> list[Any]:
    """Return the elements of a Scala list."""
    return [scala_list.apply(number) for number in range(scala_list.size())]


def _cores_per_task(context: "SparkContext") -> int:
    return int(session_property(context, "spark.task.cpus") or 1)


def _registered_executors(context: "SparkContext") -> list[Any]:
    """Return the registered executors; with a local master, the driver is the only executor."""
    return _scala_list(context._jsc.sc().statusStore().executorList(True))


def _core_count(executors: Iterable[Any]) -> int:
    return sum(int(executor.totalCores()) for executor in executors)


def describe_holders(master: str, ui_port: str, own_id: str) -> str:
    """Return the reason why a standalone master gives the application `own_id` no executor; empty for other masters.

    If there are several masters, the active master is asked.
    """
    if not master.startswith("spark://"):
        return ""
    urls = [f"http://{host}:{ui_port}/json/" for host in _HOST.findall(master)]
    for url in urls:
        state = _fetch_state(url)
        if state is not None and state.get("status", "ALIVE") == "ALIVE":
            return describe_state(state, own_id)
    return (
        f"its web UI does not answer at {' or '.join(urls)}: with its port "
        "(--conf spark.master.ui.port=N) cqrs names the applications that hold the cores"
    )


def _fetch_state(url: str) -> dict[str, Any] | None:
    """Return the JSON document of a master's web UI; None if there is no valid answer."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=_MASTER_TIMEOUT) as response:
            state = json.loads(response.read(10_000_000))
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) and isinstance(state.get("activeapps"), list) else None


def describe_state(state: Mapping[str, Any], own_id: str) -> str:
    """Return one line about a master's cores: the other applications that hold cores, and how many each holds.

    `state`: the JSON document of the master's web UI. `own_id`: the id of this application.
    """
    total_cores, used_cores = int(state.get("cores", 0)), int(state.get("coresused", 0))
    if not total_cores:
        return "it has no workers"
    other_applications = [app for app in state["activeapps"] if app.get("id") != own_id]
    holders = [
        f"{app.get('name', '?')} ({app.get('id', '?')}, user {app.get('user', '?')}) holds {app['cores']}"
        for app in other_applications
        if int(app.get("cores", 0))
    ]
    waiting_count = sum(app.get("state") == "WAITING" for app in other_applications)
    waiting_text = f"; {waiting_count} more wait" if waiting_count else ""
    if used_cores < total_cores:
        free_text = (
            f"{total_cores - used_cores} of its {total_cores} cores are free: "
            "check that a worker has spark.executor.memory free"
        )
        return "; ".join([free_text, *holders]) + waiting_text
    applications = "; ".join(holders) or "by applications that are exiting"
    return f"all of its {total_cores} cores are in use: {applications}{waiting_text}"
