"""Processor time of a run by process, kind of thread and phase: of its owners, and of everything else."""

import os
import re
import threading
import time
from collections import defaultdict
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Self

from benchmarks.environment import cpu_seconds
from cqrs_cli.jobs.engine.session import DAEMON
from tests.support.processes import process_tree

#: Seconds between two samples.
_INTERVAL = 0.05

#: The kinds of threads with a name (Linux keeps 15 characters of it). Python's owners have no name.
_KINDS = {
    "librdkafka": re.compile("rdk:"),
    "JIT compilers": re.compile("C[12] Compiler"),
    "garbage collection": re.compile("GC |G1 |VM Thread"),
    "network and requests": re.compile("data-plane"),
}


class ThreadKind(NamedTuple):
    """A kind of threads in a kind of processes: `ThreadKind("Spark's JVM", "JIT compilers")`."""

    process: str
    threads: str


class ProcessorTimes:
    """Samples the processor time of the broker, and of all processes below this process. Use as a context manager.

    A thread's time after its last sample is lost from its kind, and added to the `ended threads` of its process.
    """

    def __init__(self, broker_pid: int) -> None:
        self._broker_pid = broker_pid
        self._kinds: dict[tuple[int, int], ThreadKind] = {}  # by (process id, thread id)
        self._seconds: dict[tuple[int, int], float] = {}  # of each thread so far
        self._samples: list[
            tuple[float, dict[tuple[int, int], float]]
        ] = []  # (Unix time, `_seconds` at this time)
        self._stop_event = threading.Event()
        self._sampler = threading.Thread(target=self._sample_until_stopped)

    def __enter__(self) -> Self:
        self._sample()
        self._sampler.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop_event.set()
        self._sampler.join()
        self._sample()

    def by_phase(self, *boundaries: float) -> dict[ThreadKind, list[float]]:
        """Return the seconds of each kind of threads in each phase. `boundaries`: Unix times between the phases."""
        sums: dict[ThreadKind, list[float]] = defaultdict(lambda: [0.0] * (len(boundaries) + 1))
        for (_, before), (sampled_at, after) in pairwise(self._samples):
            phase = sum(sampled_at > boundary for boundary in boundaries)
            for thread, seconds in after.items():
                sums[self._kinds[thread]][phase] += seconds - before.get(thread, 0.0)
        return dict(sums)

    def _sample_until_stopped(self) -> None:
        while not self._stop_event.wait(_INTERVAL):
            self._sample()

    def _sample(self) -> None:
        for pid in (process_tree(os.getpid()) | {self._broker_pid}) - {os.getpid()}:
            with suppress(OSError):  # the process has just ended
                self._sample_process(pid)
        self._samples.append((time.time(), dict(self._seconds)))

    def _sample_process(self, pid: int) -> None:
        folder = Path(f"/proc/{pid}")
        command = (folder / "cmdline").read_bytes()
        if not command:
            return  # the process has ended, and its parent has not noticed yet
        process = self._process_kind(pid, command)
        for task in (folder / "task").iterdir():
            with suppress(OSError):  # the thread has just ended
                name, thread = (task / "comm").read_text(), (pid, int(task.name))
                self._kinds[thread] = ThreadKind(
                    process, _thread_kind(name, is_main=task.name == folder.name)
                )
                self._seconds[thread] = int((task / "schedstat").read_text().split()[0]) / 1e9
        sampled = sum(seconds for (owner, tid), seconds in self._seconds.items() if owner == pid and tid)
        ended = pid, 0
        self._kinds[ended] = ThreadKind(process, "ended threads")
        self._seconds[ended] = max(cpu_seconds(pid) - sampled, self._seconds.get(ended, 0.0))

    def _process_kind(self, pid: int, command: bytes) -> str:
        if pid == self._broker_pid:
            return "broker"
        if b"java" in command.partition(b"\0")[0]:
            return "Spark's JVM"
        return "Python workers" if DAEMON.encode() in command else "driver"


def _thread_kind(name: str, is_main: bool) -> str:
    kind = next((kind for kind, pattern in _KINDS.items() if pattern.match(name)), None)
    return kind or ("main thread" if is_main else "other threads")
