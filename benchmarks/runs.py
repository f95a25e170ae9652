"""The runs of a case of `benchmarks.gaps`: how to start them, wait for them, and kill them."""

import argparse
import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from benchmarks.brokers import Brokers
from benchmarks.environment import Arena, command
from cqrs_cli.kafka.offsets import committed_offsets_now
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import TERMINAL, Claim, parse_claim
from cqrs_cli.system.process import start_time, terminate
from tests.support.processes import process_tree, python_workers

#: Timeout in seconds for the start of a run, active or standby.
_PATIENCE = 300.0


def shards(number: int) -> str:
    """Return the folder of the shards of a case's first, second, … run."""
    return f"shards-{number}"


class MissedError(Exception):
    """The event to be measured did not happen."""


class Runs:
    """The runs of one case. Use as a context manager: it ends the remaining runs, and closes its stack."""

    def __init__(
        self,
        environment: Arena,
        topics: Topics,
        arguments: argparse.Namespace,
        brokers: Brokers | None = None,
    ) -> None:
        self.here, self.topics, self.given, self.brokers = environment, topics, arguments, brokers
        self.stack = ExitStack()
        self._more = [word for setting in arguments.conf for word in ("--conf", setting)]
        self._started: list[subprocess.Popen[bytes]] = []
        self._owned: list[str | None] = []
        self._struck: list[tuple[int, str]] = []
        self._orphans: list[tuple[int, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for run in self._started:
                self._orphans += _known(process_tree(run.pid))
            for orphan in self._orphans:
                terminate(*orphan, timeout=0.0)
            for run in self._started:
                run.wait()
        finally:
            self.stack.close()

    def start(self, *arguments: str) -> Path:
        """Start a run; return the file of its output. Files that a killed run leaves are in the arena."""
        log = self.here.root / f"run-{len(self._started)}.log"
        folder = self.here.root / shards(len(self._started))
        scratch = self.here.root / "tmp"
        scratch.mkdir(exist_ok=True)
        temporary = ("--conf", f"spark.driver.extraJavaOptions=-Djava.io.tmpdir={scratch}")
        call = ["run", "bank_account", "--state-dir", str(folder), *temporary, *arguments, *self._more]
        where = os.environ | {"TMPDIR": str(scratch)}
        with log.open("wb") as log_file:
            run = subprocess.Popen(
                command(*call),
                cwd=self.here.root,
                env=where,
                stdout=log_file,
                stderr=log_file,
                start_new_session=True,
            )
        self._started.append(run)
        return log

    def at_work(self, *arguments: str) -> None:
        """Start a run and wait until it owns every partition."""
        self._owned = self._owners()
        self.start(*arguments)
        self.wait_until("a run at work", self.is_taken_over)
        self._owned = self._owners()

    def standing_by(self) -> None:
        """Start a standby run, and wait until it is a standby for every partition."""
        log, message = self.start("--standby"), b": in standby mode, run"
        self.wait_until(
            "a run that stands by", lambda: log.read_bytes().count(message) >= self.given.partitions
        )

    def kill(self) -> None:
        """Kill the first run's driver with -9; its JVM and workers notice this, and exit."""
        run = self._started[0]
        self._orphans += _known(process_tree(run.pid))
        self._struck += _known([run.pid])
        os.killpg(run.pid, signal.SIGKILL)

    def kill_worker(self) -> None:
        """Kill one Python worker of the first run that has owners with -9."""
        folder = str(self.here.root / shards(0))
        below = python_workers(process_tree(self._started[0].pid))
        self.strike(next(pid for pid in below if folder in Path(f"/proc/{pid}/maps").read_text()))

    def strike(self, pid: int) -> None:
        """Kill a process with -9."""
        self._struck += _known([pid])
        os.kill(pid, signal.SIGKILL)

    def has_struck(self) -> bool:
        """True if a process was killed, and all killed processes are gone."""
        return bool(self._struck) and all(start_time(pid) != birth for pid, birth in self._struck)

    def is_taken_over(self) -> bool:
        """True if every partition has an owner that is not among the earlier owners."""
        return not {None, *self._owned} & {*self._owners()}

    def has_moved(self) -> bool:
        """True if partitions have moved to additional tasks of the run."""
        return any(claim is not None and claim.submission > 0 for claim in self._claims())

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        """Wait for the condition. Raises `MissedError` if the last run has ended, or after minutes."""
        deadline = time.monotonic() + _PATIENCE
        while not condition():
            if time.monotonic() > deadline or any(run.poll() is not None for run in self._started[-1:]):
                raise MissedError(f"no {what}; the last run says:\n{self._last_words()}")
            time.sleep(0.5)  # a poll costs processor time, and a case may be in progress

    def _last_words(self) -> str:
        log = self.here.root / f"run-{len(self._started) - 1}.log"
        return log.read_text()[-2000:] if log.exists() else ""

    def _owners(self) -> list[str | None]:
        """Return the run that owns each partition; None for a partition without an owner."""
        return [claim.run if claim and claim.attempt < TERMINAL else None for claim in self._claims()]

    def _claims(self) -> list[Claim | None]:
        claims = committed_offsets_now(
            self.here.connection, self.topics, range(self.given.partitions)
        ).values()
        return [parse_claim(claim.metadata) for claim in claims]


def _known(pids: "set[int] | list[int]") -> list[tuple[int, str]]:
    """Return these processes with their start times, parents first; without processes that have ended."""
    return [(pid, birth) for pid in sorted(pids) if (birth := start_time(pid)) is not None]
