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
Blow = Callable[[], Mapping[str, float] | None]


class Case(NamedTuple):
    """A fault: its preparation, a check whether all its effects have happened, and the least seconds of sending."""

    prepare: Callable[[Runs], Blow]
    came: Callable[[Runs], bool]
    seconds: float = 0.0


def steady(runs: Runs) -> Blow:
    """Inject no fault."""
    runs.at_work()
    return lambda: None


def executor_killed(runs: Runs, slots: int = 1) -> Blow:
    """Kill one of two executors of a standalone cluster with -9; its worker starts another executor.

    `slots`: of each executor. Lost tasks restart in the free slots of the other executor.
    """
    spark = _at_work_on_executors(runs, 2, slots)

    def blow() -> None:
        below = process_tree(spark.workers[0].pid)
        runs.strike(next(pid for pid in below if _is_executor(pid)))

    return blow


def executor_joins(runs: Runs) -> Blow:
    """Start a second worker of a standalone cluster: half of the partitions move to its executor."""
    spark = _at_work_on_executors(runs, 1, 2)

    def has_registered() -> bool:
        logs = (runs.here.root / "cluster" / "worker1").glob("*/*/stderr")
        return any(b"Successfully registered with driver" in log.read_bytes() for log in logs)

    def join() -> None:
        spark.join()
        runs.wait_until("executor that joins", has_registered)

    return partial(_until_moved, runs, join)


def executor_drained(runs: Runs) -> Blow:
    """Drain one of two workers: its partitions move to the other worker, whose executor could hold all."""
    spark = _at_work_on_executors(runs, 2, 4)
    return partial(_until_moved, runs, partial(spark.drain, 0))


def _at_work_on_executors(runs: Runs, workers: int, slots: int) -> Cluster:
    """Return a standalone cluster with an active run. `slots`: of each worker's only executor."""
    folder = runs.here.root / "cluster"
    folder.mkdir(exist_ok=True)
    spark = runs.stack.enter_context(cluster(folder, workers, slots))
    log = folder / "cluster.log"
    runs.wait_until("cluster", lambda: log.read_bytes().count(b"Registering worker") == workers)
    each = ("--conf", f"spark.cores.max={2 * slots}", "--conf", f"spark.executor.cores={slots}")
    runs.at_work("--master", spark.master, *each)
    return spark


def _until_moved(runs: Runs, act: Callable[[], object]) -> Mapping[str, float]:
    """Call `act`, and wait until partitions have moved inside the run; return the seconds since the end of the call."""
    act()
    began = time.monotonic()
    runs.wait_until("partition that moved", runs.has_moved)
    return {"moved": time.monotonic() - began}


def _is_executor(pid: int) -> bool:
    return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()


def broker_ended(runs: Runs, how: signal.Signals) -> Blow:
    """Kill the leader of a partition, one of three brokers, with -9, or stop it, so that it moves its partitions."""
    runs.at_work()
    brokers = runs.brokers
    assert brokers is not None
    return lambda: {"election": brokers.end_leader(runs.topics.commands, how)}


def newer_run(runs: Runs) -> Blow:
    """Start another run, which takes over."""
    runs.at_work()

    def blow() -> None:
        runs.start()

    return blow


def worker_killed(runs: Runs) -> Blow:
    """Kill a Python worker with -9."""
    runs.at_work()
    return runs.kill_worker


def run_killed_beside_standby(runs: Runs) -> Blow:
    """Kill the active run with -9 while a standby run waits."""
    runs.at_work()
    runs.standing_by()
    return runs.kill


def run_killed_and_started(runs: Runs) -> Blow:
    """Kill the run with -9, and start another run at once."""
    runs.at_work()

    def blow() -> None:
        runs.kill()
        runs.start()

    return blow


def peer_killed(runs: Runs, session_timeout: float) -> Blow:
    """Kill one of two instances of Kafka Streams with -9."""
    arguments = runs.given
    call = peer.pair(runs.here, arguments.peer, runs.topics, session_timeout)
    first, _ = runs.stack.enter_context(call)
    return lambda: runs.strike(first.pid)


CASES = {
    "steady": Case(steady, lambda runs: not runs.is_taken_over()),
    "newer run": Case(newer_run, Runs.is_taken_over),
    "worker": Case(worker_killed, Runs.has_struck),
    "executor": Case(executor_killed, Runs.has_struck),
    # Each executor could hold all tasks.
    "executor, room": Case(partial(executor_killed, slots=4), Runs.has_struck),
    "executor joins": Case(executor_joins, Runs.has_moved),
    "executor drained": Case(executor_drained, Runs.has_moved),
    "standby": Case(run_killed_beside_standby, lambda runs: runs.has_struck() and runs.is_taken_over()),
    "restart": Case(run_killed_and_started, lambda runs: runs.has_struck() and runs.is_taken_over()),
    # These faults end with the election of another leader.
    "broker": Case(partial(broker_ended, how=signal.SIGKILL), lambda _: True),
    "broker stopped": Case(partial(broker_ended, how=signal.SIGTERM), lambda _: True),
}

#: The cases with brokers of their own.
ON_THREE = ("broker", "broker stopped")

#: The cases of Kafka Streams, by its session timeout in seconds (45 by default), after which another instance takes
#: over.
PEERS = {
    f"peer, {session} s": Case(partial(peer_killed, session_timeout=session), Runs.has_struck, session + 25.0)
    for session in (45, 6)
}
