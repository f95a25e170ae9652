"""A Spark task of `cqrs process`: it starts a supervisor for each of its partitions, and watches them."""

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

from cqrs_cli import failpoints, registry
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.processes.compose import Composer
from cqrs_cli.following.processes.hanging import ReactWatch
from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.processes.plan import ProcessPlan, ProcessResult, Subscription
from cqrs_cli.following.processes.supervisor import ProcessSupervisor
from cqrs_cli.ownership.watchdog import Watchdog
from cqrs_cli.system.limits import make_room

#: New objects since the last collection that may be cycles left by a process's code.
_GARBAGE = 300_000


def react_share(
    plan: ProcessPlan, subscriptions: list[Subscription], attempt: int
) -> Iterator[ProcessResult]:
    """Own these partitions until all of them have ended; yields how each did.

    Before anything is claimed it makes room for all of them: where there is none, the run before this one goes on.

    An orphan, whose parent is gone, ends without a result: a driver that still waits must take the task for lost.
    """
    failpoints.arm()
    try:
        make_room(plan.needs(len(subscriptions)), f"a task that hears {len(subscriptions)} partitions")
    except ConfigurationError as error:
        yield ProcessResult(subscriptions[0], error=error)
    else:
        yield from _react(plan, subscriptions, attempt)


def one_at_a_time(load: Callable[[str], Aggregate]) -> Callable[[str], Aggregate]:
    """The same, remembered, and never in two threads at once: `importlib.invalidate_caches` raises `KeyError` then.

    Threads react to their first events at the same time, and the first command for an aggregate loads it.
    """
    lock, cached = threading.Lock(), lru_cache(maxsize=None)(load)

    def loaded(name: str) -> Aggregate:
        with lock:
            return cached(name)

    return loaded


def process_supervisors(
    plan: ProcessPlan, subscriptions: list[Subscription], attempt: int, stopping: threading.Event
) -> list[ProcessSupervisor]:
    """A supervisor for each of these partitions, with the code of its process. Nothing has begun."""
    base = plan.aggregates_root or plan.root
    loaded = {
        name: load_process(name, plan.root, plan.package, base)
        for name in {one.process for one in subscriptions}
    }
    load = one_at_a_time(lambda name: registry.load(name, plan.package, base))
    return [
        ProcessSupervisor(
            plan,
            subscription,
            loaded[subscription.process],
            Composer(subscription.process, plan.commands, plan.partitioner, load, plan.connection.payloads),
            attempt,
            stopping,
        )
        for subscription in subscriptions
    ]


def _react(plan: ProcessPlan, subscriptions: list[Subscription], attempt: int) -> Iterator[ProcessResult]:
    parent, stopping, began = os.getppid(), threading.Event(), time.process_time()
    supervisors = process_supervisors(plan, subscriptions, attempt, stopping)
    threads = [
        threading.Thread(target=one.run, name=str(one.subscription), daemon=True) for one in supervisors
    ]
    gc.freeze()
    gc.disable()  # the loop makes no cycles worth a pause; what a process's code leaves goes here
    try:
        for thread in threads:
            thread.start()
        _watch(plan, supervisors, threads, stopping, parent)
    finally:
        gc.enable()
    first, *others = [one.ending for one in supervisors if one.ending is not None]
    yield replace(first, cpu=time.process_time() - began)
    yield from others


def _watch(
    plan: ProcessPlan,
    supervisors: list[ProcessSupervisor],
    threads: list[threading.Thread],
    stopping: threading.Event,
    parent: int,
) -> None:
    orphaned = 0.0
    watches, watchdog = [ReactWatch(one) for one in supervisors], Watchdog(plan.timing.decide_timeout)
    while any(thread.is_alive() for thread in threads):
        for thread in threads:
            thread.join(timeout=0.2 / len(threads))
        if os.getppid() != parent:
            orphaned = orphaned or time.monotonic()
        if orphaned or any(one.failed for one in supervisors):
            stopping.set()
        if orphaned and time.monotonic() - orphaned > plan.timing.orphaned:
            break
        for one in supervisors:
            one.end_if_stuck()
        for watch in watches:
            watch.look()
        watchdog.renew()
        if gc.get_count()[0] > _GARBAGE:
            gc.collect(1)
    if orphaned:
        os._exit(os.EX_SOFTWARE)
    watchdog.stop()
