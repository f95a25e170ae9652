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

from cqrs_cli.failpoints import POINTS, VARIABLE
from cqrs_cli.kafka.offsets import committed_offsets_now
from tests.support import ROOT
from tests.support.brokers import Broker, broker
from tests.support.commands import endless
from tests.support.processes import family, jvm, living, python_workers
from tests.support.project import Project
from tests.support.soak_companions import Beside, write_project
from tests.support.waiting import eventually

SENDERS = 3
RUN = ("run", "--quiet", "--master", "local[2]")
STATE = ".cqrs/state"

#: After each fault, `ONWARD` commands must be decided within `WITHIN` seconds.
ONWARD, WITHIN = 20, 180.0

Run = subprocess.Popen[str]


class Soak:
    """A project whose run gets faults repeatedly, and continues."""

    def __init__(self, project: Project, mortal: Broker, seed: int, say: Callable[[str], None]) -> None:
        self.project, self.mortal, self.seed, self.say = project, mortal, seed, say
        self.choice = random.Random(seed)
        self.bank = self.project.harness(partitions=4)
        self.project.harness("counter", partitions=1)
        self.project.cqrs("init")  # also creates the topic of the process manager's positions
        self.beside = Beside(project, self.bank, self.choice)
        self.began = time.monotonic()
        self.sent = [0] * SENDERS
        self.resting = threading.Event()
        self.current = self._start()
        self.blows: list[Callable[[], str]] = [
            self.kill_worker,
            self.kill_executor,
            self.kill_driver,
            self.pause_worker,
            self.take_over,
            self.kill_standby,
            self.follow,
            self.kill_broker,
            self.pause_broker,
            self.terminate,
            self.strike_somewhere,
            *self.beside.blows(self.resting),
        ]

    def go_on(self, minutes: float) -> None:
        """Send commands and inject faults for some minutes, then stop both."""
        senders = [threading.Thread(target=self._send, args=(number,)) for number in range(SENDERS)]
        for sender in senders:
            sender.start()
        try:
            self._onward("the first run")
            until = time.monotonic() + 60 * minutes
            while time.monotonic() < until:
                self._onward(self.choice.choice(self.blows)())
        finally:
            self.resting.set()
            for sender in senders:
                sender.join()
        self._end(signal.SIGTERM, 143)

    def check(self) -> None:
        """Check that each command is decided once, and that shards, replay and companions agree."""
        for _ in range(2):  # the second run decides the process manager's commands of the first
            self.project.cqrs(*RUN, "--once")
        self.bank.check(STATE)
        digest = self.project.json("replay", "bank_account")["digest"]
        status = self.project.json("status", "bank_account", "--digest")
        assert (status["lag"], status["aggregates"]["bank_account"]["digest"]) == (0, digest)
        assert digest == self.bank.digest(STATE)
        self.project.cqrs("verify", "bank_account", "--state")  # would end with 5
        self.beside.check()
        self.say(f"{self.decided()} commands decided once each; digest {digest[:16]}…")

    def decided(self) -> int:
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
        self._end(signal.SIGKILL, 1, jvm(family(self.current.pid)))
        self.current = self._start()
        return "killed the executor, started again"

    def kill_driver(self) -> str:
        self._end(signal.SIGKILL, -signal.SIGKILL)
        self.current = self._start()
        return "killed the driver, started again"

    def pause_worker(self) -> str:
        worker, seconds = self._worker(), self.choice.uniform(0.5, 5)
        os.kill(worker, signal.SIGSTOP)
        self.resting.wait(seconds)
        os.kill(worker, signal.SIGCONT)
        return f"paused a worker for {seconds:.1f} s"

    def take_over(self) -> str:
        before, self.current = self.current, self._start()
        _, output = before.communicate(timeout=WITHIN)
        assert before.returncode == 6, output
        return "took over with a second run"

    def kill_standby(self) -> str:
        with self._standby():
            return "killed a standby"

    def follow(self) -> str:
        """Kill the active run and then its standby, so that the next run has its own shards again."""
        with self._standby() as ready:
            self._end(signal.SIGKILL, -signal.SIGKILL)
            self.current = ready
            self._onward("killed the driver with a standby beside it")
            self._end(signal.SIGKILL, -signal.SIGKILL)
        self.current = self._start()
        return "killed the standby that followed, started again"

    @contextmanager
    def _standby(self) -> Iterator[Run]:
        """Run a standby while the block lasts, and kill it then."""
        with self.project.running(*RUN, "--standby", "--state-dir", ".cqrs/beside") as ready:
            eventually(self._stood_by, WITHIN)
            yield ready

    def _stood_by(self) -> bool:
        return bool(self.project.json("status", "bank_account")["aggregates"]["bank_account"]["standbys"])

    def kill_broker(self) -> str:
        self.mortal.kill()
        self.mortal.start()
        return "killed the broker, started again"

    def pause_broker(self) -> str:
        seconds = self.choice.uniform(0.5, 5)
        self.mortal.signal(signal.SIGSTOP)
        self.resting.wait(seconds)
        self.mortal.signal(signal.SIGCONT)
        return f"paused the broker for {seconds:.1f} s"

    def terminate(self) -> str:
        self._end(signal.SIGTERM, 143)
        self.current = self._start()
        return "stopped and started again"

    def strike_somewhere(self) -> str:
        """Restart the run with a random failpoint, at which a worker kills itself if it passes there."""
        place = f"{self.choice.choice(list(POINTS))}:{self.choice.randrange(1, 10)}"
        self._end(signal.SIGTERM, 143)
        self.current = self._start(**{VARIABLE: f"{place}:kill@{self.project.folder / uuid.uuid4().hex}"})
        return f"stopped, started again with {place}"

    def _start(self, **variables: str) -> Run:
        return self.project.start(*RUN, **variables)

    def _end(self, number: int, status: int, victim: int | None = None) -> None:
        """Signal the current run or a part of it. All its processes must end soon, with this exit status."""
        everybody = family(self.current.pid)
        os.kill(victim or self.current.pid, number)
        _, output = self.current.communicate(timeout=WITHIN)
        assert self.current.returncode == status, output
        eventually(lambda: not living(everybody))

    def _worker(self) -> int:
        workers = eventually(lambda: python_workers(family(self.current.pid)), within=WITHIN)
        return self.choice.choice(sorted(workers))

    def _send(self, number: int) -> None:
        bank, pause = self.project.harness(partitions=4), random.Random(number)
        commands = endless(f"{self.seed}.{number}")
        while not self.resting.wait(pause.uniform(0, 0.5)):
            batch = [next(commands) for _ in range(pause.randrange(1, 40))]
            bank.send(*batch)
            self.sent[number] += len(batch)

    def _onward(self, what: str) -> None:
        """Wait until the current run has decided more commands."""
        goal = self.decided() + ONWARD
        eventually(lambda: self.decided() >= goal or self.current.poll() is not None, WITHIN)
        assert self.current.poll() is None, f"{what}: {self.current.communicate()[1]}"
        took = time.monotonic() - self.began
        self.say(f"{took:6.1f} s  {what}; {sum(self.sent)} sent, {self.decided()} decided")

    def abandon(self) -> None:
        """Kill all processes."""
        self.beside.end()
        everybody = living(family(self.current.pid))
        for pid in everybody:
            os.kill(pid, signal.SIGKILL)
        self.current.communicate()


def soak(folder: Path, minutes: float, seed: int, say: Callable[[str], None]) -> None:
    """Run a soak in `folder`, with its own broker."""
    (folder / "cqrs.toml").touch()
    (folder / "aggregates").mkdir()
    for name in ("__init__", "bank_account", "counter"):
        shutil.copy(ROOT / "aggregates" / f"{name}.py", folder / "aggregates")
    write_project(folder)
    say(f"seed {seed}")
    with ExitStack() as stack:
        mortal = stack.enter_context(broker(folder))
        ordeal = Soak(Project(folder, mortal.connection, "soak."), mortal, seed, say)
        stack.callback(ordeal.abandon)
        ordeal.go_on(minutes)
        ordeal.check()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.support.soak")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cqrs-soak-") as folder:
        soak(Path(folder), arguments.minutes, arguments.seed, lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
