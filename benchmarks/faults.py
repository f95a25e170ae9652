"""The faults of `benchmarks.gaps`: each case prepares its environment, injects a fault, and checks for its effects."""

import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import peer
from benchmarks.runs import Runs
from tests.support.processes import process_tree
from tests.support.standalone import Cluster, cluster

#: Injects a fault into the active run; returns additional measurements in seconds.
Fault = Callable[[], Mapping[str, float] | None]


class Case(NamedTuple):
    """A fault: its preparation, a check whether all its effects have happened, and the least seconds of sending."""

    prepare: Callable[[Runs], Fault]
    has_happened: Callable[[Runs], bool]
    seconds: float = 0.0


def steady(runs: Runs) -> Fault:
    """Inject no fault."""
    runs.start_and_await_owners()
    return lambda: None


def executor_killed(runs: Runs, slots: int = 1) -> Fault:
    """Kill one of two executors of a standalone cluster with -9; its worker starts another executor.

    `slots` is the number of slots of each executor. Lost tasks restart in the free slots of the other executor.
    """
    spark = _start_cluster_with_run(runs, 2, slots)

    def inject() -> None:
        descendants = process_tree(spark.workers[0].pid)
        runs.kill_process(next(pid for pid in descendants if _is_executor(pid)))

    return inject


def executor_joins(runs: Runs) -> Fault:
    """Start a second worker of a standalone cluster: half of the partitions move to its executor."""
    spark = _start_cluster_with_run(runs, 1, 2)

    def has_registered() -> bool:
        logs = (runs.environment.root / "cluster" / "worker1").glob("*/*/stderr")
        return any(b"Successfully registered with driver" in log.read_bytes() for log in logs)

    def join() -> None:
        spark.join()
        runs.wait_until("executor that joins", has_registered)

    return partial(_seconds_until_moved, runs, join)


def executor_drained(runs: Runs) -> Fault:
    """Drain one of two workers: its partitions move to the other worker, whose executor could hold all."""
    spark = _start_cluster_with_run(runs, 2, 4)
    return partial(_seconds_until_moved, runs, partial(spark.drain, 0))


def _start_cluster_with_run(runs: Runs, workers: int, slots: int) -> Cluster:
    """Return a standalone cluster with an active run. Each worker has one executor with this number of slots."""
    folder = runs.environment.root / "cluster"
    folder.mkdir(exist_ok=True)
    spark = runs.stack.enter_context(cluster(folder, workers, slots))
    log = folder / "cluster.log"
    runs.wait_until("cluster", lambda: log.read_bytes().count(b"Registering worker") == workers)
    executor_options = ("--conf", f"spark.cores.max={2 * slots}", "--conf", f"spark.executor.cores={slots}")
    runs.start_and_await_owners("--master", spark.master, *executor_options)
    return spark


def _seconds_until_moved(runs: Runs, action: Callable[[], object]) -> Mapping[str, float]:
    """Call `action` and wait until partitions have moved in the run. Return the seconds since the end of the call."""
    action()
    start = time.monotonic()
    runs.wait_until("partition that moved", runs.has_moved)
    return {"moved": time.monotonic() - start}


def _is_executor(pid: int) -> bool:
    return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()


def broker_ended(runs: Runs, signal_number: signal.Signals) -> Fault:
    """Kill the leader of a partition, one of three brokers, with -9, or stop it, so that it moves its partitions."""
    runs.start_and_await_owners()
    brokers = runs.brokers
    assert brokers is not None
    return lambda: {"election": brokers.end_leader(runs.topics.commands, signal_number)}


def newer_run(runs: Runs) -> Fault:
    """Start another run, which takes over."""
    runs.start_and_await_owners()

    def inject() -> None:
        runs.start()

    return inject


def worker_killed(runs: Runs) -> Fault:
    """Kill a Python worker with -9."""
    runs.start_and_await_owners()
    return runs.kill_worker


def run_killed_with_standby(runs: Runs) -> Fault:
    """Kill the active run with -9 while a standby run waits."""
    runs.start_and_await_owners()
    runs.start_standby()
    return runs.kill


def run_killed_and_started(runs: Runs) -> Fault:
    """Kill the run with -9, and start another run at once."""
    runs.start_and_await_owners()

    def inject() -> None:
        runs.kill()
        runs.start()

    return inject


def peer_killed(runs: Runs, session_timeout: float) -> Fault:
    """Kill one of two instances of Kafka Streams with -9."""
    arguments = runs.arguments
    instances = peer.instance_pair(runs.environment, arguments.peer, runs.topics, session_timeout)
    first, _ = runs.stack.enter_context(instances)
    return lambda: runs.kill_process(first.pid)


CASES = {
    "steady": Case(steady, lambda runs: not runs.is_taken_over()),
    "newer run": Case(newer_run, Runs.is_taken_over),
    "worker": Case(worker_killed, Runs.has_killed),
    "executor": Case(executor_killed, Runs.has_killed),
    # Each executor could hold all tasks.
    "executor, room": Case(partial(executor_killed, slots=4), Runs.has_killed),
    "executor joins": Case(executor_joins, Runs.has_moved),
    "executor drained": Case(executor_drained, Runs.has_moved),
    "standby": Case(run_killed_with_standby, lambda runs: runs.has_killed() and runs.is_taken_over()),
    "restart": Case(run_killed_and_started, lambda runs: runs.has_killed() and runs.is_taken_over()),
    # These faults end with the election of another leader.
    "broker": Case(partial(broker_ended, signal_number=signal.SIGKILL), lambda _: True),
    "broker stopped": Case(partial(broker_ended, signal_number=signal.SIGTERM), lambda _: True),
}

#: The cases with brokers of their own.
CASES_WITH_THREE_BROKERS = ("broker", "broker stopped")

#: The cases of Kafka Streams, by its session timeout in seconds (45 by default), after which another instance takes
#: over.
PEERS = {
    f"peer, {session} s": Case(partial(peer_killed, session_timeout=session), Runs.has_killed, session + 25.0)
    for session in (45, 6)
}
