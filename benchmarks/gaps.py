"""The longest that a command waits for its outcome while an owner is killed or taken over, as a client sees it."""

import argparse
import os
import signal
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from benchmarks.arena import Arena, arena, command, open_accounts, workers
from benchmarks.latency import ACCOUNTS, is_owned, waits
from benchmarks.report import report
from cqrs_cli.kafka.topics.topics import Topics

#: Seconds of quiet work before the blow, and after a run has come up, so that its shards and its code are warm.
_QUIET = 5.0

#: What happens to the run at work.
Blow = Callable[[], object]


class Runs:
    """The runs of one case, each in a session of its own. Use as a context manager: it kills what is left."""

    def __init__(self, here: Arena, topics: Topics, given: argparse.Namespace) -> None:
        self._here, self._topics, self._partitions = here, topics, given.partitions
        self._more = [word for one in given.conf for word in ("--conf", one)]
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Runs":
        return self

    def __exit__(self, *_: object) -> None:
        for run in self._started:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()

    def start(self, *arguments: str) -> Path:
        """Start a run; the file of what it says."""
        log = self._here.root / f"run-{len(self._started)}.log"
        shards = self._here.root / f"shards-{len(self._started)}"
        call = command("run", "bank_account", "--state-dir", str(shards), *arguments, *self._more)
        with log.open("wb") as said:
            run = subprocess.Popen(call, cwd=self._here.root, stderr=said, start_new_session=True)
        self._started.append(run)
        return log

    def at_work(self) -> None:
        """Start a run and wait until it owns every partition."""
        self.start()
        until(lambda: is_owned(self._here, self._topics, self._partitions))

    def standing_by(self) -> None:
        """Start a run that stands by, and wait until it does."""
        log = self.start("--standby")
        until(lambda: b"standing by" in log.read_bytes())

    def kill(self) -> None:
        """kill -9 of the first run's driver; its JVM and workers end with it."""
        os.killpg(self._started[0].pid, signal.SIGKILL)

    def kill_worker(self) -> None:
        """kill -9 of one Python worker of the first run."""
        os.kill(workers(self._started[0].pid)[-1], signal.SIGKILL)


def until(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    while not condition():
        time.sleep(0.1)


def steady(runs: Runs) -> Blow:
    """Nothing happens."""
    runs.at_work()
    return lambda: None


def newer_run(runs: Runs) -> Blow:
    """Another run is started, which takes over."""
    runs.at_work()
    return runs.start


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


CASES = {
    "steady": steady,
    "newer run": newer_run,
    "worker": worker_killed,
    "standby": run_killed_beside_standby,
    "restart": run_killed_and_started,
}


def main() -> None:
    """Read the options, measure, report."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rate", type=int, default=200, help="commands per second")
    options.add_argument("--partitions", type=int, default=4)
    options.add_argument("--runs", type=int, default=5, help="times that each case is played")
    options.add_argument("--seconds", type=float, default=25.0, help="of sending; the blow comes after five")
    options.add_argument("--case", choices=CASES, action="append", help="only this one; may be repeated")
    options.add_argument("--conf", action="append", default=[], help="of Spark, as of cqrs run")
    given = options.parse_args()
    rows = []
    with arena() as here:
        topics = here.topics("bank_account", given.partitions)
        open_accounts(here, topics, ACCOUNTS)
        for name in given.case or CASES:
            rows += [_play(here, topics, given, name) for _ in range(given.runs)]
    report("longest wait for an outcome, seconds", rows)


def _play(here: Arena, topics: Topics, given: argparse.Namespace, name: str) -> dict[str, object]:
    with ExitStack() as stack:
        runs = stack.enter_context(Runs(here, topics, given))
        blow = threading.Timer(_QUIET, CASES[name](runs))
        waits(here, topics, argparse.Namespace(**{**vars(given), "seconds": _QUIET}))
        blow.start()
        taken = waits(here, topics, given)
        blow.join()
    return {
        "what": f"{name} at {given.rate}/s",
        "longest": taken[-1],
        "p99": taken[int(len(taken) * 0.99)],
        "median": statistics.median(taken),
    }


if __name__ == "__main__":
    main()
