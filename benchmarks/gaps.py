"""The longest that a command waits for its outcome while an owner is killed or taken over, as a client sees it."""

import argparse
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from benchmarks import peer
from benchmarks.arena import Arena, arena, open_accounts
from benchmarks.brokers import Brokers, three_brokers
from benchmarks.latency import ACCOUNTS, answers
from benchmarks.report import report
from benchmarks.runs import MissedError, Runs, shards
from cqrs_cli.kafka.topics.topics import Topics
from tests.support.processes import family
from tests.support.standalone import Cluster, cluster

#: Seconds of quiet work before the blow, and after a run has come up, so that its shards and its code are warm.
_QUIET = 5.0

#: The event that strikes the run at work; what more is to be known of it, in seconds.
Blow = Callable[[], Mapping[str, float] | None]


class Case(NamedTuple):
    """A blow: how it is made ready, if all that it leads to is there, and the fewest seconds of sending."""

    prepare: Callable[[Runs], Blow]
    came: Callable[[Runs], bool]
    seconds: float = 0.0


def steady(runs: Runs) -> Blow:
    """Nothing happens."""
    runs.at_work()
    return lambda: None


def executor_killed(runs: Runs, slots: int = 1) -> Blow:
    """One of two executors of a standalone cluster is killed with -9; its worker starts another one.

    `slots`: of each executor. The tasks that are lost begin again in what is free in the other one.
    """
    spark = _at_work_on_executors(runs, 2, slots)

    def blow() -> None:
        below = family(spark.workers[0].pid)
        runs.strike(next(pid for pid in below if _is_executor(pid)))

    return blow


def executor_joins(runs: Runs) -> Blow:
    """A second worker of a standalone cluster is started: half of the partitions move to its executor."""
    spark = _at_work_on_executors(runs, 1, 2)

    def has_registered() -> bool:
        logs = (runs.here.root / "cluster" / "worker1").glob("*/*/stderr")
        return any(b"Successfully registered with driver" in log.read_bytes() for log in logs)

    def join() -> None:
        spark.join()
        runs.wait_until("executor that joins", has_registered)

    return partial(_until_moved, runs, join)


def executor_drained(runs: Runs) -> Blow:
    """One of two workers is told to leave: its partitions move to the other one, whose executor could hold all."""
    spark = _at_work_on_executors(runs, 2, 4)
    return partial(_until_moved, runs, partial(spark.drain, 0))


def _at_work_on_executors(runs: Runs, workers: int, slots: int) -> Cluster:
    """A standalone cluster with a run at work; `slots`: of each worker's one executor."""
    folder = runs.here.root / "cluster"
    folder.mkdir(exist_ok=True)
    spark = runs.stack.enter_context(cluster(folder, workers, slots))
    log = folder / "cluster.log"
    runs.wait_until("cluster", lambda: log.read_bytes().count(b"Registering worker") == workers)
    each = ("--conf", f"spark.cores.max={2 * slots}", "--conf", f"spark.executor.cores={slots}")
    runs.at_work("--master", spark.master, *each)
    return spark


def _until_moved(runs: Runs, act: Callable[[], object]) -> Mapping[str, float]:
    """Do it, and wait until partitions have moved inside the run: how many seconds later."""
    act()
    began = time.monotonic()
    runs.wait_until("partition that moved", runs.has_moved)
    return {"moved": time.monotonic() - began}


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
    return lambda: runs.strike(first.pid)


CASES = {
    "steady": Case(steady, lambda runs: not runs.is_taken_over()),
    "newer run": Case(newer_run, Runs.is_taken_over),
    "worker": Case(worker_killed, Runs.has_struck),
    "executor": Case(executor_killed, Runs.has_struck),
    "executor, room": Case(partial(executor_killed, slots=4), Runs.has_struck),  # each could hold all
    "executor joins": Case(executor_joins, Runs.has_moved),
    "executor drained": Case(executor_drained, Runs.has_moved),
    "standby": Case(run_killed_beside_standby, lambda runs: runs.has_struck() and runs.is_taken_over()),
    "restart": Case(run_killed_and_started, lambda runs: runs.has_struck() and runs.is_taken_over()),
    "broker": Case(broker_killed, lambda _: True),  # the blow ends with the election of another leader
}

#: Of Kafka Streams: its seconds of silence until another instance takes over, 45 by default.
PEERS = {
    f"peer, {session} s": Case(partial(peer_killed, session_timeout=session), Runs.has_struck, session + 25.0)
    for session in (45, 6)
}


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument(
        "--rate", type=int, action="append", help="commands per second, 200 by default; may be repeated"
    )
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument(
        "--aggregates", type=int, default=ACCOUNTS, help="in prepared shards if more than that"
    )
    options.add_argument("--runs", type=int, default=5, help="times that each case is played")
    options.add_argument(
        "--seconds", type=float, default=25.0, help="of sending, at least; the blow comes after five"
    )
    options.add_argument(
        "--case", choices=[*CASES, *PEERS], action="append", help="only this one; may be repeated"
    )
    options.add_argument("--conf", action="append", default=[], help="of Spark, as of cqrs run")
    options.add_argument("--peer", type=Path, help="folder of the Kafka Streams peer (kstreams/run.sh in it)")
    given = options.parse_args()
    names = given.case or [*CASES, *(PEERS if given.peer else ())]
    if given.peer is None and any(name in PEERS for name in names):
        options.error("this case needs --peer")
    rows, missed = [], 0
    with arena() as here:
        topics = here.topics("bank_account", given.partitions)
        if any(_is_on_one_broker(name) for name in names):
            _prepare(here, topics, given)
        for name in names:
            for rate in given.rate or [200]:
                one = argparse.Namespace(**{**vars(given), "rate": rate})
                for _ in range(given.runs):
                    try:
                        rows.append(_play(here, topics, one, name))
                        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
                    except MissedError as error:
                        print(f"{name} at {rate}/s has no figure: {error}", file=sys.stderr, flush=True)
                        missed += 1
    report("longest wait for an outcome, seconds", rows)
    sys.exit(1 if missed else 0)


def _is_on_one_broker(name: str) -> bool:
    return name not in ("broker", *PEERS)


def _prepare(here: Arena, topics: Topics, given: argparse.Namespace) -> None:
    """Open the accounts; every run finds the shards of so many, and folds what came after. No run trusts copies."""
    open_accounts(here, topics, given.aggregates)
    if given.aggregates > ACCOUNTS:
        here.cqrs("run", "bank_account", "--once", "--state-dir", shards(0))
        here.cqrs("rebuild", "bank_account", "--state-dir", shards(1))  # another run would have nothing to do


def _play(here: Arena, topics: Topics, given: argparse.Namespace, name: str) -> dict[str, object]:
    case = {**CASES, **PEERS}[name]
    given = argparse.Namespace(**{**vars(given), "seconds": max(given.seconds, case.seconds)})
    with ExitStack() as stack:
        place = stack.enter_context(_place(here, topics, given, name))
        runs = stack.enter_context(Runs(*place[:2], given, place[2]))
        blow = case.prepare(runs)
        _, unanswered = answers(*place[:2], argparse.Namespace(**{**vars(given), "seconds": _QUIET}))
        if unanswered:
            raise MissedError(f"{unanswered} commands of the quiet work before have no outcome")
        blows, ended = stack.enter_context(ThreadPoolExecutor(1)), threading.Event()
        stack.callback(ended.set)
        struck = blows.submit(_strike, blow, partial(case.came, runs), runs, ended)
        taken, unanswered = answers(*place[:2], given, struck.done)
        more = struck.result()
        if not case.came(runs):
            raise MissedError("what came has gone again")
    return {
        "what": f"{name} at {given.rate}/s on {given.partitions}",
        "longest": taken[-1],
        "p99": taken[int(len(taken) * 0.99)],
        "median": statistics.median(taken),
        "unanswered": unanswered,
        **more,
    }


@contextmanager
def _place(
    here: Arena, topics: Topics, given: argparse.Namespace, name: str
) -> Iterator[tuple[Arena, Topics, Brokers | None]]:
    """A broker that is killed, and the peer, get topics of their own.

    The peer is given no accounts to begin with: it needs none.
    """
    if name == "broker":
        with three_brokers() as (here, brokers):
            topics = here.topics("bank_account", given.partitions)
            _prepare(here, topics, given)
            yield here, topics, brokers
    elif name in PEERS:
        yield here, here.topics("bank_account", given.partitions, f"peer-{time.time_ns()}."), None
    else:
        yield here, topics, None


def _strike(blow: Blow, came: Callable[[], bool], runs: Runs, ended: threading.Event) -> Mapping[str, float]:
    """Strike after a while of quiet work, unless all has ended before, and wait for what comes of it."""
    if ended.wait(_QUIET):
        return {}
    more = blow() or {}
    runs.wait_until("run that came", lambda: ended.is_set() or came())
    return more


if __name__ == "__main__":
    main()
