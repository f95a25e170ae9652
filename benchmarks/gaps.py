"""The longest that a command waits for its outcome while an owner is killed or taken over, as a client sees it."""

import argparse
import os
import shutil
import signal
import statistics
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from benchmarks import peer
from benchmarks.arena import Arena, arena, open_accounts
from benchmarks.brokers import three_brokers
from benchmarks.latency import ACCOUNTS, waits
from benchmarks.report import report
from benchmarks.runs import Runs, until
from cqrs_cli.kafka.topics.topics import Topics
from tests.support.processes import family
from tests.support.standalone import cluster

#: Seconds of quiet work before the blow, and after a run has come up, so that its shards and its code are warm.
_QUIET = 5.0

#: The folder of the shards that every run begins with, and the runs of a case.
_PREPARED, _MOST = "shards-prepared", 2

#: What happens to the run at work; what more is to be known of it, in seconds.
Blow = Callable[[], Mapping[str, float] | None]


def steady(runs: Runs) -> Blow:
    """Nothing happens."""
    runs.at_work()
    return lambda: None


def executor_killed(runs: Runs) -> Blow:
    """One of two executors of a standalone cluster is killed with -9; its worker starts another one."""
    folder = runs.here.root / "cluster"
    folder.mkdir(exist_ok=True)
    spark = runs.stack.enter_context(cluster(folder))
    until(lambda: (folder / "cluster.log").read_bytes().count(b"Registering worker") == len(spark.workers))
    one_each = ("--conf", "spark.cores.max=2", "--conf", "spark.executor.cores=1")
    runs.at_work("--master", spark.master, *one_each)

    def blow() -> None:
        below = family(spark.workers[0].pid)
        os.kill(next(pid for pid in below if _is_executor(pid)), signal.SIGKILL)

    return blow


def _is_executor(pid: int) -> bool:
    return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()


def broker_killed(runs: Runs) -> Blow:
    """The leader of a partition, one of three brokers, is killed with -9."""
    runs.at_work()
    brokers = runs.brokers
    assert brokers is not None
    return lambda: {"election": brokers.kill_leader(runs.topics.commands)}


def newer_run(runs: Runs) -> Blow:
    """Another run is started, which takes over."""
    runs.at_work()

    def blow() -> None:
        runs.start()

    return blow


def worker_killed(runs: Runs) -> Blow:
    """A Python worker is killed with -9."""
    runs.at_work()
    return runs.kill_worker


def run_killed_beside_standby(runs: Runs) -> Blow:
    """The run is killed with -9; another one stands by."""
    runs.at_work()
    runs.standing_by()
    return runs.kill


def run_killed_and_started(runs: Runs) -> Blow:
    """The run is killed with -9, and another one is started at once."""
    runs.at_work()

    def blow() -> None:
        runs.kill()
        runs.start()

    return blow


def peer_killed(runs: Runs, session_timeout: float) -> Blow:
    """One of two instances of Kafka Streams is killed with -9."""
    given = runs.given
    call = peer.pair(runs.here, given.peer, runs.topics, session_timeout)
    first, _ = runs.stack.enter_context(call)
    return first.kill


CASES: dict[str, Callable[[Runs], Blow]] = {
    "steady": steady,
    "newer run": newer_run,
    "worker": worker_killed,
    "executor": executor_killed,
    "standby": run_killed_beside_standby,
    "restart": run_killed_and_started,
    "broker": broker_killed,
}

#: Of Kafka Streams: its seconds of silence until another instance takes over, 45 by default.
PEERS: dict[str, Callable[[Runs], Blow]] = {
    "peer, 45 s": lambda runs: peer_killed(runs, 45.0),
    "peer, 6 s": lambda runs: peer_killed(runs, 6.0),
}


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rate", type=int, default=200, help="commands per second")
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument(
        "--aggregates", type=int, default=ACCOUNTS, help="in prepared shards if more than that"
    )
    options.add_argument("--runs", type=int, default=5, help="times that each case is played")
    options.add_argument("--seconds", type=float, default=25.0, help="of sending; the blow comes after five")
    options.add_argument(
        "--case", choices=[*CASES, *PEERS], action="append", help="only this one; may be repeated"
    )
    options.add_argument("--conf", action="append", default=[], help="of Spark, as of cqrs run")
    options.add_argument("--peer", type=Path, help="folder of the Kafka Streams peer (kstreams/run.sh in it)")
    given = options.parse_args()
    names = given.case or [*CASES, *(PEERS if given.peer else ())]
    if given.peer is None and any(name in PEERS for name in names):
        options.error("this case needs --peer")
    rows = []
    with arena() as here:
        topics = here.topics("bank_account", given.partitions)
        _prepare(here, topics, given)
        for name in names:
            rows += [_play(here, topics, given, name) for _ in range(given.runs)]
    report("longest wait for an outcome, seconds", rows)


def _prepare(here: Arena, topics: Topics, given: argparse.Namespace) -> None:
    """Open the accounts; every run finds the shards of so many, and folds what came after."""
    open_accounts(here, topics, given.aggregates)
    if given.aggregates > ACCOUNTS:
        here.cqrs("run", "bank_account", "--once", "--state-dir", _PREPARED)
        for number in range(_MOST):
            shutil.copytree(here.root / _PREPARED, here.root / f"shards-{number}")


def _play(here: Arena, topics: Topics, given: argparse.Namespace, name: str) -> dict[str, object]:
    """A broker that is killed, and the peer, get topics of their own."""
    with ExitStack() as stack:
        brokers = None
        if name == "broker":
            here, brokers = stack.enter_context(three_brokers())
            topics = here.topics("bank_account", given.partitions)
            _prepare(here, topics, given)
        elif name in PEERS:
            topics = here.topics("bank_account", given.partitions, f"peer-{time.time_ns()}.")
            open_accounts(here, topics, given.aggregates)
            given = argparse.Namespace(**{**vars(given), "seconds": max(given.seconds, 70.0)})
        runs = stack.enter_context(Runs(here, topics, given, brokers))
        blow = {**CASES, **PEERS}[name](runs)
        waits(here, topics, argparse.Namespace(**{**vars(given), "seconds": _QUIET}))
        blows = stack.enter_context(ThreadPoolExecutor(1))
        struck = blows.submit(_strike, blow)
        taken = waits(here, topics, given)
        more = struck.result()
    return {
        "what": f"{name} at {given.rate}/s on {given.partitions}",
        "longest": taken[-1],
        "p99": taken[int(len(taken) * 0.99)],
        "median": statistics.median(taken),
        **more,
    }


def _strike(blow: Blow) -> Mapping[str, float]:
    """Strike after a while of quiet work."""
    time.sleep(_QUIET)
    return blow() or {}


if __name__ == "__main__":
    main()
