"""A Spark task of `cqrs run`: it starts a supervisor for each of its partitions, a thread each, and watches them."""

import gc
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

from cqrs_cli import failpoints
from cqrs_cli.deciding.checkpoints.opening import RestoringSupervisor
from cqrs_cli.deciding.checkpoints.schedule import Checkpointer
from cqrs_cli.deciding.hanging import DecideWatch
from cqrs_cli.deciding.plan import OwnerResult, Partition, Plan
from cqrs_cli.deciding.report import ReportSender, compose_report
from cqrs_cli.deciding.supervisor import Supervisor
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.processes.hanging import ReactWatch
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessResult, Subscription
from cqrs_cli.following.processes.supervisor import ProcessSupervisor
from cqrs_cli.following.processes.task import process_supervisors
from cqrs_cli.ownership.claim import Counts
from cqrs_cli.ownership.watchdog import CodeWatch, Watchdog
from cqrs_cli.registry import load
from cqrs_cli.state.memory import MemoryBudget, MemoryStore
from cqrs_cli.system.limits import Needs, make_room, owner_needs
from cqrs_cli.telemetry.blocked import BlockedFile

#: New objects since the last collection that may be cycles left by an aggregate's code. Batches under way hold fewer.
GARBAGE = 300_000


def own(
    plan: Plan, task: int, tasks: int, attempt: int, processes: ProcessPlan | None = None
) -> Iterator[OwnerResult | ProcessResult]:
    """Own this task's share of the partitions, and of those that processes hear, until all of them have ended; yields
    how each did.

    Before anything is claimed it makes room for all of them: where there is none, the run before this one goes on.

    An orphan, whose parent is gone, ends without a result: a driver that still waits must take the task for lost.
    """
    failpoints.arm()
    share = (plan.partitions() + (processes.subscriptions if processes else []))[task::tasks]
    try:
        make_room(_needs(plan, share), f"a task that owns {len(share)} partitions")
    except ConfigurationError as error:
        first = share[0]
        yield (
            OwnerResult(first, Counts(), error)
            if isinstance(first, Partition)
            else ProcessResult(first, error=error)
        )
    else:
        yield from _own(plan, processes, share, attempt)


def _needs(plan: Plan, share: list[Partition | Subscription]) -> Needs:
    """The needs of a task: only partitions of aggregates have shards, which are mapped."""
    shards = sum(isinstance(one, Partition) for one in share)
    return Needs(owner_needs(len(share), plan.brokers).descriptors, owner_needs(shards, plan.brokers).bytes)


def _supervisors(
    plan: Plan, partitions: list[Partition], attempt: int, stopping: threading.Event
) -> list[Supervisor]:
    """A supervisor for each of these partitions, with the code of its aggregate. Nothing has begun."""
    if not partitions:
        return []
    plan = replace(plan, cache_bytes=plan.cache_bytes // len(partitions))
    budget = MemoryBudget(plan.store_limit)  # one for all of them: partitions differ in size
    aggregates = {name: load(name, plan.package, plan.root) for name in {name for name, _ in partitions}}
    begun = RestoringSupervisor if plan.checkpoints and plan.store == "lmdb" else Supervisor
    return [
        begun(plan, partition, aggregates[partition.aggregate], attempt, stopping, budget)
        for partition in partitions
    ]


def _own(
    plan: Plan, processes: ProcessPlan | None, share: list[Partition | Subscription], attempt: int
) -> Iterator[OwnerResult | ProcessResult]:
    parent, orphaned, began = os.getppid(), 0.0, time.process_time()
    stopping = threading.Event()
    deciding = _supervisors(plan, [one for one in share if isinstance(one, Partition)], attempt, stopping)
    heard = [one for one in share if isinstance(one, Subscription)]
    reacting = [] if processes is None else process_supervisors(processes, heard, attempt, stopping)
    owners: list[Supervisor | ProcessSupervisor] = [*deciding, *reacting]
    threads = [threading.Thread(target=owner.run, daemon=True) for owner in owners]
    watches: list[CodeWatch] = [*map(DecideWatch, deciding), *map(ReactWatch, reacting)]
    watchdog = Watchdog(plan.timing.decide_timeout)
    reporters, checkpointer = [Reporter(owner) for owner in deciding], Checkpointer(deciding)
    gc.freeze()
    gc.disable()  # the loop makes no cycles worth a pause; what an aggregate's code leaves goes here
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(timeout=0.2)
        if os.getppid() != parent:
            orphaned = orphaned or time.monotonic()
        if orphaned or any(owner.failed for owner in owners):
            stopping.set()
        if orphaned and time.monotonic() - orphaned > plan.timing.orphaned:
            break
        for owner in owners:
            owner.end_if_stuck()
        for watch in watches:
            watch.look()
        for reporter in reporters:
            reporter.report()
        checkpointer.look()
        watchdog.renew()
        if gc.get_count()[0] > GARBAGE:
            gc.collect(1)
    if not orphaned and not any(owner.failed for owner in owners):
        _write_last(checkpointer, plan, reporters, watchdog, parent)
    checkpointer.close()
    if orphaned or os.getppid() != parent:
        os._exit(os.EX_SOFTWARE)
    watchdog.stop()
    for reporter in reporters:
        reporter.close()
    gc.enable()
    first, *others = [owner.ending for owner in owners if owner.ending is not None]
    yield replace(first, cpu=time.process_time() - began)
    yield from others


def _write_last(
    checkpointer: Checkpointer, plan: Plan, reporters: "list[Reporter]", watchdog: Watchdog, parent: int
) -> None:
    """Write the last checkpoints; an orphan writes none."""

    def meanwhile() -> bool:
        for reporter in reporters:
            reporter.report()
        watchdog.renew()
        return os.getppid() == parent

    checkpointer.finish(plan.timing.retire_deadline, meanwhile)


class Reporter:
    """Tells the driver what a partition's owner measures."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._sender = None if supervisor.plan.reports is None else ReportSender(supervisor.plan.reports)
        self._shard = supervisor.plan.shard(supervisor.partition)
        self._number, self._blocked = 0, BlockedFile(self._shard)

    def report(self) -> None:
        """To be called several times a second."""
        self._blocked.tell(self._supervisor.measures.blocked)
        if self._sender is None:
            return
        supervisor, self._number = self._supervisor, self._number + 1
        order = (supervisor.mine.submission, supervisor.mine.attempt, self._number)
        self._sender.send(
            compose_report(
                supervisor.partition, order, supervisor.measures, self._bytes(), list(supervisor.notes)
            )
        )

    def _bytes(self) -> int:
        """The bytes of the shard on disk, or of the store in memory."""
        store = self._supervisor.store
        if isinstance(store, MemoryStore):
            return store.size
        try:
            return sum(file.stat().st_blocks * 512 for file in self._shard.iterdir())
        except OSError:  # it is being set aside
            return 0

    def close(self) -> None:
        """OwnerReport for the last time."""
        if self._sender is not None:
            self.report()
            self._sender.close()
        self._blocked.tell("")
