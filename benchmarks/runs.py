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
from benchmarks.environment import Environment, command
from cqrs_cli.kafka.offsets import committed_offsets_now
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import TERMINAL, Claim, parse_claim
from cqrs_cli.system.process import start_time, terminate
from tests.support.processes import process_tree, python_workers

#: Timeout in seconds for the start of a run, active or standby.
_START_TIMEOUT = 300.0


def shards(number: int) -> str:
    """Return the folder of the shards of a case's first, second, … run."""
    return f"shards-{number}"


class MissedError(Exception):
    """The event to be measured did not happen."""


class Runs:
    """The runs of one case. Use as a context manager: it ends the remaining runs, and closes its stack."""

    def __init__(
        self,
        environment: Environment,
        topics: Topics,
        arguments: argparse.Namespace,
        brokers: Brokers | None = None,
    ) -> None:
        self.environment, self.topics, self.arguments, self.brokers = environment, topics, arguments, brokers
        self.stack = ExitStack()
        self._spark_options = [option for setting in arguments.conf for option in ("--conf", setting)]
        self._runs: list[subprocess.Popen[bytes]] = []
        self._earlier_owners: list[str | None] = []
        self._killed_processes: list[tuple[int, str]] = []
        self._orphans: list[tuple[int, str]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for run in self._runs:
                self._orphans += _with_start_times(process_tree(run.pid))
            for orphan in self._orphans:
                terminate(*orphan, timeout=0.0)
            for run in self._runs:
                run.wait()
        finally:
            self.stack.close()

    def start(self, *arguments: str) -> Path:
        """Start a run; return the file of its output. Files that a killed run leaves are in the environment."""
        log = self.environment.root / f"run-{len(self._runs)}.log"
        folder = self.environment.root / shards(len(self._runs))
        scratch = self.environment.root / "tmp"
        scratch.mkdir(exist_ok=True)
        temporary_folder_options = ("--conf", f"spark.driver.extraJavaOptions=-Djava.io.tmpdir={scratch}")
        run_arguments = [
            "run",
            "bank_account",
            "--state-dir",
            str(folder),
            *temporary_folder_options,
            *arguments,
            *self._spark_options,
        ]
        variables = os.environ | {"TMPDIR": str(scratch)}
        with log.open("wb") as log_file:
            run = subprocess.Popen(
                command(*run_arguments),
                cwd=self.environment.root,
                env=variables,
                stdout=log_file,
                stderr=log_file,
                start_new_session=True,
            )
        self._runs.append(run)
        return log

    def start_and_await_owners(self, *arguments: str) -> None:
        """Start a run and wait until it owns every partition."""
        self._earlier_owners = self._owners()
        self.start(*arguments)
        self.wait_until("run with all partitions", self.is_taken_over)
        self._earlier_owners = self._owners()

    def start_standby(self) -> None:
        """Start a standby run, and wait until it is a standby for every partition."""
        log, message = self.start("--standby"), b": in standby mode, run"
        self.wait_until("standby run", lambda: log.read_bytes().count(message) >= self.arguments.partitions)

    def kill(self) -> None:
        """Kill the first run's driver with -9; its JVM and workers notice this, and exit."""
        run = self._runs[0]
        self._orphans += _with_start_times(process_tree(run.pid))
        self._killed_processes += _with_start_times([run.pid])
        os.killpg(run.pid, signal.SIGKILL)

    def kill_worker(self) -> None:
        """Kill one Python worker of the first run that has owners with -9."""
        folder = str(self.environment.root / shards(0))
        workers = python_workers(process_tree(self._runs[0].pid))
        self.kill_process(next(pid for pid in workers if folder in Path(f"/proc/{pid}/maps").read_text()))

    def kill_process(self, pid: int) -> None:
        """Kill a process with -9."""
        self._killed_processes += _with_start_times([pid])
        os.kill(pid, signal.SIGKILL)

    def has_killed(self) -> bool:
        """True if a process was killed, and all killed processes are gone."""
        return bool(self._killed_processes) and all(
            start_time(pid) != start for pid, start in self._killed_processes
        )

    def is_taken_over(self) -> bool:
        """True if every partition has an owner that is not among the earlier owners."""
        return not {None, *self._earlier_owners} & {*self._owners()}

    def has_moved(self) -> bool:
        """True if partitions have moved to additional tasks of the run."""
        return any(claim is not None and claim.submission > 0 for claim in self._claims())

    def wait_until(self, event: str, condition: Callable[[], bool]) -> None:
        """Wait for the condition. Raises `MissedError` if the last run has ended, or after minutes."""
        deadline = time.monotonic() + _START_TIMEOUT
        while not condition():
            if time.monotonic() > deadline or any(run.poll() is not None for run in self._runs[-1:]):
                raise MissedError(f"no {event}; output of the last run:\n{self._last_output()}")
            time.sleep(0.5)  # a poll costs processor time, and a case may be in progress

    def _last_output(self) -> str:
        log = self.environment.root / f"run-{len(self._runs) - 1}.log"
        return log.read_text()[-2000:] if log.exists() else ""

    def _owners(self) -> list[str | None]:
        """Return the run that owns each partition; None for a partition without an owner."""
        return [claim.run if claim and claim.attempt < TERMINAL else None for claim in self._claims()]

    def _claims(self) -> list[Claim | None]:
        claims = committed_offsets_now(
            self.environment.connection, self.topics, range(self.arguments.partitions)
        ).values()
        return [parse_claim(claim.metadata) for claim in claims]


def _with_start_times(pids: "set[int] | list[int]") -> list[tuple[int, str]]:
    """Return these processes with their start times, parents first; without processes that have ended."""
    return [(pid, start) for pid in sorted(pids) if (start := start_time(pid)) is not None]
