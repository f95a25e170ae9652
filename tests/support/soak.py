"""Commands of all kinds from several senders, while every part of the system is killed: `make nightly`

The seed repeats the commands and the order of the faults, but not their times. Afterwards the log, the shards and the
replay must agree with the reference model. A process manager must have sent each of its commands once. A projection and
a gateway must agree with the log.
"""

import argparse
import os
import random
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cqrs_cli.failpoints import VARIABLE
from cqrs_cli.kafka.offsets import committed_offsets_now
from cqrs_cli.observer import POINTS
from tests.support import ROOT
from tests.support.brokers import Broker, broker
from tests.support.commands import endless_commands
from tests.support.processes import living_processes, process_tree, python_workers, spark_jvm
from tests.support.project import Project
from tests.support.soak_companions import Companions, write_project
from tests.support.waiting import eventually

SENDERS = 3
RUN_ARGUMENTS = ("run", "--quiet", "--master", "local[2]")
STATE = ".cqrs/state"

#: After each fault, `PROGRESS_COUNT` commands must be decided within `PROGRESS_TIMEOUT` seconds.
PROGRESS_COUNT, PROGRESS_TIMEOUT = 20, 180.0

Run = subprocess.Popen[str]


class Soak:
    """A project whose run gets faults repeatedly, and continues."""

    def __init__(self, project: Project, broker: Broker, seed: int, report: Callable[[str], None]) -> None:
        self.project, self.broker, self.seed, self.report = project, broker, seed, report
        self.generator = random.Random(seed)
        self.bank = self.project.harness(partitions=4)
        self.project.harness("counter", partitions=1)
        self.project.cqrs("init")  # also creates the topic of the process manager's positions
        # The companions are a process manager, a projection and a gateway.
        self.companions = Companions(project, self.bank, self.generator)
        self.start_time = time.monotonic()
        self.sent = [0] * SENDERS
        self.stopping = threading.Event()
        self.run = self._start()
        self.faults: list[Callable[[], str]] = [
            self.kill_worker,
            self.kill_executor,
            self.kill_driver,
            self.pause_worker,
            self.take_over,
            self.kill_standby,
            self.kill_run_and_standby,
            self.kill_broker,
            self.pause_broker,
            self.terminate,
            self.restart_with_failpoint,
            *self.companions.faults(self.stopping),
        ]

    def inject_faults(self, minutes: float) -> None:
        """Send commands and inject faults for some minutes, then stop both."""
        senders = [threading.Thread(target=self._send, args=(number,)) for number in range(SENDERS)]
        for sender in senders:
            sender.start()
        try:
            self._await_progress("the first run")
            deadline = time.monotonic() + 60 * minutes
            while time.monotonic() < deadline:
                self._await_progress(self.generator.choice(self.faults)())
        finally:
            self.stopping.set()
            for sender in senders:
                sender.join()
        self._end(signal.SIGTERM, 143)

    def check(self) -> None:
        """Check that each command is decided once, and that shards, replay and companions agree with the log."""
        # The second run decides the commands that the process manager sent during the first run.
        for _ in range(2):
            self.project.cqrs(*RUN_ARGUMENTS, "--once")
        self.bank.check(STATE)
        digest = self.project.json("replay", "bank_account")["digest"]
        status = self.project.json("status", "bank_account", "--digest")
        assert (status["lag"], status["aggregates"]["bank_account"]["digest"]) == (0, digest)
        assert digest == self.bank.digest(STATE)
        self.project.cqrs("verify", "bank_account", "--state")  # raises if the exit code is 5 (inconsistency)
        self.companions.check()
        self.report(f"{self.decided_count()} commands decided once each; digest {digest[:16]}…")

    def decided_count(self) -> int:
        """Return the number of commands before the committed offsets.

        Does not wait for pending commits of killed owners.
        """
        partitions = range(self.bank.partitions)
        claims = committed_offsets_now(self.bank.connection, self.bank.topics, partitions)
        return sum(claim.offset or 0 for claim in claims.values())

    def kill_worker(self) -> str:
        os.kill(self._worker(), signal.SIGKILL)
        return "killed a worker"

    def kill_executor(self) -> str:
        self._end(signal.SIGKILL, 1, spark_jvm(process_tree(self.run.pid)))
        self.run = self._start()
        return "killed the executor, started again"

    def kill_driver(self) -> str:
        self._end(signal.SIGKILL, -signal.SIGKILL)
        self.run = self._start()
        return "killed the driver, started again"

    def pause_worker(self) -> str:
        worker, seconds = self._worker(), self.generator.uniform(0.5, 5)
        os.kill(worker, signal.SIGSTOP)
        self.stopping.wait(seconds)
        os.kill(worker, signal.SIGCONT)
        return f"paused a worker for {seconds:.1f} s"

    def take_over(self) -> str:
        old_run, self.run = self.run, self._start()
        _, output = old_run.communicate(timeout=PROGRESS_TIMEOUT)
        assert old_run.returncode == 6, output
        return "took over with a second run"

    def kill_standby(self) -> str:
        with self._standby():
            return "killed a standby"

    def kill_run_and_standby(self) -> str:
        """Kill the active run, and then the standby that took over.

        The next run uses the shards in `STATE` again, not those of the standby.
        """
        with self._standby() as standby:
            self._end(signal.SIGKILL, -signal.SIGKILL)
            self.run = standby
            self._await_progress("killed the driver with a standby running")
            self._end(signal.SIGKILL, -signal.SIGKILL)
        self.run = self._start()
        return "killed the standby that took over, started again"

    @contextmanager
    def _standby(self) -> Iterator[Run]:
        """Run a standby while the block lasts, and kill it then."""
        with self.project.running(*RUN_ARGUMENTS, "--standby", "--state-dir", ".cqrs/standby") as standby:
            eventually(self._has_standby, PROGRESS_TIMEOUT)
            yield standby

    def _has_standby(self) -> bool:
        return bool(self.project.json("status", "bank_account")["aggregates"]["bank_account"]["standbys"])

    def kill_broker(self) -> str:
        self.broker.kill()
        self.broker.start()
        return "killed the broker, started again"

    def pause_broker(self) -> str:
        seconds = self.generator.uniform(0.5, 5)
        self.broker.signal(signal.SIGSTOP)
        self.stopping.wait(seconds)
        self.broker.signal(signal.SIGCONT)
        return f"paused the broker for {seconds:.1f} s"

    def terminate(self) -> str:
        self._end(signal.SIGTERM, 143)
        self.run = self._start()
        return "stopped and started again"

    def restart_with_failpoint(self) -> str:
        """Restart the run with a random failpoint, at which a worker kills itself when it reaches the failpoint."""
        failpoint = f"{self.generator.choice(list(POINTS))}:{self.generator.randrange(1, 10)}"
        self._end(signal.SIGTERM, 143)
        self.run = self._start(**{VARIABLE: f"{failpoint}:kill@{self.project.folder / uuid.uuid4().hex}"})
        return f"stopped, started again with {failpoint}"

    def _start(self, **variables: str) -> Run:
        return self.project.start(*RUN_ARGUMENTS, **variables)

    def _end(self, signal_number: int, status: int, victim: int | None = None) -> None:
        """Signal the current run or a part of it. All its processes must end soon, with this exit status."""
        pids = process_tree(self.run.pid)
        os.kill(victim or self.run.pid, signal_number)
        _, output = self.run.communicate(timeout=PROGRESS_TIMEOUT)
        assert self.run.returncode == status, output
        eventually(lambda: not living_processes(pids))

    def _worker(self) -> int:
        workers = eventually(lambda: python_workers(process_tree(self.run.pid)), within=PROGRESS_TIMEOUT)
        return self.generator.choice(sorted(workers))

    def _send(self, number: int) -> None:
        bank, delays = self.project.harness(partitions=4), random.Random(number)
        commands = endless_commands(f"{self.seed}.{number}")
        while not self.stopping.wait(delays.uniform(0, 0.5)):
            batch = [next(commands) for _ in range(delays.randrange(1, 40))]
            bank.send(*batch)
            self.sent[number] += len(batch)

    def _await_progress(self, event: str) -> None:
        """Wait until the current run has decided more commands."""
        target_count = self.decided_count() + PROGRESS_COUNT
        eventually(
            lambda: self.decided_count() >= target_count or self.run.poll() is not None, PROGRESS_TIMEOUT
        )
        assert self.run.poll() is None, f"{event}: {self.run.communicate()[1]}"
        elapsed = time.monotonic() - self.start_time
        self.report(f"{elapsed:6.1f} s  {event}; {sum(self.sent)} sent, {self.decided_count()} decided")

    def kill_all(self) -> None:
        """Kill all processes."""
        self.companions.end()
        pids = living_processes(process_tree(self.run.pid))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.run.communicate()


def soak(folder: Path, minutes: float, seed: int, report: Callable[[str], None]) -> None:
    """Run a soak in `folder`, with its own broker."""
    (folder / "cqrs.toml").touch()
    (folder / "aggregates").mkdir()
    for name in ("__init__", "bank_account", "counter"):
        shutil.copy(ROOT / "aggregates" / f"{name}.py", folder / "aggregates")
    write_project(folder)
    report(f"seed {seed}")
    with ExitStack() as stack:
        test_broker = stack.enter_context(broker(folder))
        soak_run = Soak(Project(folder, test_broker.connection, "soak."), test_broker, seed, report)
        stack.callback(soak_run.kill_all)
        soak_run.inject_faults(minutes)
        soak_run.check()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.soak")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cqrs-soak-") as folder:
        soak(Path(folder), arguments.minutes, arguments.seed, lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
