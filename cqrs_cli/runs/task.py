"""A task of a run: it runs the supervisor of each of its partitions in a thread, and watches them."""

import gc
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from cqrs_cli import failpoints
from cqrs_cli.deciding.checkpoints.checkpointer import Checkpointer
from cqrs_cli.deciding.checkpoints.restoring_supervisor import RestoringSupervisor
from cqrs_cli.deciding.plan import OwnerResult, Partition, Plan
from cqrs_cli.deciding.supervisor import DecidingSupervisor
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessResult, Subscription
from cqrs_cli.following.processes.supervisor import create_supervisors
from cqrs_cli.ownership.owner_exit import OwnerExit
from cqrs_cli.ownership.supervisor import Supervisor
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.ownership.watchdog import HangDetector, Watchdog
from cqrs_cli.registry import load
from cqrs_cli.runs.run_partitions import RunPartition
from cqrs_cli.state.memory import MemoryBudget
from cqrs_cli.system.forked_children import close_sockets_in_children
from cqrs_cli.system.limits import Needs, owner_needs, raise_soft_limits
from cqrs_cli.system.memory import without_garbage_collection
from cqrs_cli.telemetry.otel.export_settings import check_export_settings
from cqrs_cli.telemetry.otel.tracing import tracing

#: The number of new objects after which garbage is collected, in case a user's code creates cycles. Batches in progress
#: have fewer objects, so they cause no collection.
MAX_GARBAGE = 300_000


def own_partitions(
    plan: Plan, partitions: Sequence[RunPartition], attempt: int, process_plan: ProcessPlan | None = None
) -> Iterator[OwnerExit[Any]]:
    """Own these partitions until all owners have ended; yield a result for each partition.

    `attempt`: the number of the task's attempt. Before any claim, the task checks the resources for all partitions, so
    that the previous run continues if they are missing.

    If the parent process has died (the task is an orphan), the task exits without a result, so that the driver counts
    it as lost.
    """
    failpoints.arm()
    close_sockets_in_children()
    try:
        raise_soft_limits(_task_needs(plan, partitions), f"a task that owns {len(partitions)} partitions")
        check_export_settings()  # a worker may have other variables than the driver
    except ConfigurationError as error:
        first_partition = partitions[0]
        yield (
            OwnerResult(first_partition, error)
            if isinstance(first_partition, Partition)
            else ProcessResult(first_partition, error)
        )
        return
    cpu_seconds_before, stop_event = time.process_time(), threading.Event()
    deciding_supervisors = _deciding_supervisors(
        plan, [partition for partition in partitions if isinstance(partition, Partition)], attempt, stop_event
    )
    subscriptions = [partition for partition in partitions if isinstance(partition, Subscription)]
    reacting_supervisors = (
        create_supervisors(process_plan, subscriptions, attempt, stop_event) if process_plan else []
    )
    supervisors: list[Supervisor] = [*deciding_supervisors, *reacting_supervisors]
    with tracing(supervisors[0].notes.append):
        _TaskSupervisors(supervisors, deciding_supervisors, plan.timing, stop_event).run()
    exits: list[OwnerExit[Any]] = [supervisor.result for supervisor in deciding_supervisors]
    exits += [supervisor.result for supervisor in reacting_supervisors]
    yield replace(exits[0], cpu_seconds=time.process_time() - cpu_seconds_before)
    yield from exits[1:]


def _task_needs(plan: Plan, partitions: Sequence[RunPartition]) -> Needs:
    """Return the resources that a task needs. Only partitions of aggregates have shards, which need address space."""
    shards = sum(isinstance(partition, Partition) for partition in partitions)
    return Needs(
        owner_needs(len(partitions), plan.brokers).descriptors, owner_needs(shards, plan.brokers).bytes
    )


def _deciding_supervisors(
    plan: Plan, partitions: list[Partition], attempt: int, stop_event: threading.Event
) -> list[DecidingSupervisor]:
    """Return a supervisor for each of these partitions, with the code of its aggregate. The supervisors are not
    started.
    """
    if not partitions:
        return []
    plan = replace(plan, cache_bytes=plan.cache_bytes // len(partitions))
    budget = MemoryBudget(plan.store_limit)  # shared by all partitions, because they differ in size
    aggregates = {name: load(name, plan.package, plan.root) for name in {name for name, _ in partitions}}
    supervisor_class = (
        RestoringSupervisor if plan.checkpoints and plan.store == "lmdb" else DecidingSupervisor
    )
    return [
        supervisor_class(plan, partition, aggregates[partition.aggregate], attempt, stop_event, budget)
        for partition in partitions
    ]


class _TaskSupervisors:
    """The supervisors of a task, each in its own thread. The thread that calls `run` watches them."""

    def __init__(
        self,
        supervisors: Sequence[Supervisor],
        deciding_supervisors: Sequence[DecidingSupervisor],
        timing: Timing,
        stop_event: threading.Event,
    ) -> None:
        self._supervisors, self._timing, self._stop_event = supervisors, timing, stop_event
        self._parent, self._orphaned_at = os.getppid(), 0.0
        self._threads = [
            threading.Thread(target=supervisor.run, name=supervisor.label, daemon=True)
            for supervisor in supervisors
        ]
        self._hang_detectors = [HangDetector(supervisor) for supervisor in supervisors]
        self._checkpointer = Checkpointer(deciding_supervisors)
        self._watchdog = Watchdog(timing.decide_timeout)

    # Python's own collections would pause the loops. `_check_owners` collects the cycles that a user's code creates.
    @without_garbage_collection()
    def run(self) -> None:
        """Start the threads, and watch them until all supervisors have ended. If the task is an orphan, the process
        exits.
        """
        for thread in self._threads:
            thread.start()
        while any(thread.is_alive() for thread in self._threads) and not self._is_orphan_overdue():
            for thread in self._threads:
                thread.join(timeout=0.2 / len(self._threads))
            self._check_owners()
        if not self._orphaned_at and not any(supervisor.error for supervisor in self._supervisors):
            self._checkpointer.write_last_checkpoints(self._timing.retire_deadline, self._report_progress)
        self._checkpointer.close()
        if self._orphaned_at or os.getppid() != self._parent:
            os._exit(os.EX_SOFTWARE)
        self._watchdog.cancel_timer()
        for supervisor in self._supervisors:
            supervisor.close_sender()
            supervisor.drop_owner()

    def _check_owners(self) -> None:
        if os.getppid() != self._parent:
            self._orphaned_at = self._orphaned_at or time.monotonic()
        if (
            self._orphaned_at
            or any(supervisor.ends_task for supervisor in self._supervisors)
            or any(supervisor.received_end() for supervisor in self._supervisors)
        ):
            self._stop_event.set()
        for supervisor in self._supervisors:
            supervisor.end_if_stuck()
        for detector in self._hang_detectors:
            detector.check_current_record()
        self._checkpointer.write_due_checkpoints()
        self._report_progress()
        if gc.get_count()[0] > MAX_GARBAGE:
            gc.collect(1)

    def _is_orphan_overdue(self) -> bool:
        """True if the task has been an orphan for so long that it no longer waits for its owners."""
        return bool(self._orphaned_at) and time.monotonic() - self._orphaned_at > self._timing.orphan_timeout

    def _report_progress(self) -> bool:
        """Send the reports, and restart the watchdog's timer. Return False if the task is an orphan.

        It is also called while the last checkpoints are written: False stops the writing, because an orphan must not
        write checkpoints.
        """
        for supervisor in self._supervisors:
            supervisor.send_reports()
        self._watchdog.restart_timer()
        return os.getppid() == self._parent
