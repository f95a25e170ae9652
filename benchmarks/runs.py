"""The runs of a case of `benchmarks.gaps`: what one may start, wait for, and kill."""

import argparse
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from benchmarks.arena import Arena, command, workers
from benchmarks.brokers import Brokers
from cqrs_cli.kafka.offsets import committed_now
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import TERMINAL, parse_claim


class Runs:
    """The runs of one case, each in a session of its own. Use as a context manager: it kills what is left."""

    def __init__(
        self, here: Arena, topics: Topics, given: argparse.Namespace, brokers: Brokers | None = None
    ) -> None:
        self.here, self.topics, self.given, self.brokers = here, topics, given, brokers
        self.stack = ExitStack()
        self._more = [word for one in given.conf for word in ("--conf", one)]
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Runs":
        return self

    def __exit__(self, *_: object) -> None:
        for run in self._started:
            with suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
        self.stack.close()

    def start(self, *arguments: str) -> Path:
        """Start a run; the file of what it says."""
        log = self.here.root / f"run-{len(self._started)}.log"
        shards = self.here.root / f"shards-{len(self._started)}"
        call = command("run", "bank_account", "--state-dir", str(shards), *arguments, *self._more)
        with log.open("wb") as said:
            run = subprocess.Popen(call, cwd=self.here.root, stderr=said, start_new_session=True)
        self._started.append(run)
        return log

    def at_work(self, *arguments: str) -> None:
        """Start a run and wait until it owns every partition."""
        before = self._owners()
        self.start(*arguments)
        until(lambda: not {None, *before} & {*self._owners()})

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

    def _owners(self) -> list[str | None]:
        """The run that owns each partition; None of one that nobody owns."""
        found = committed_now(self.here.connection, self.topics, range(self.given.partitions)).values()
        claims = [parse_claim(one.metadata) for one in found]
        return [claim.run if claim and claim.attempt < TERMINAL else None for claim in claims]


def until(condition: Callable[[], bool]) -> None:
    """Wait for it."""
    while not condition():
        time.sleep(0.1)
