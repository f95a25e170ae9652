"""Rebuilds shards: builds all of them next to the old shards, and installs them when all are complete."""

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection as Pipe
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

from cqrs_cli.deciding.plan import Partition, Plan
from cqrs_cli.deciding.rebuild.build import ShardSize, serve_build
from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka import readers
from cqrs_cli.registry import load
from cqrs_cli.state.checkpoint.temporary_folder import temporary_folder
from cqrs_cli.state.errors import MOUNTS, reject_network_file_system, translate_errors
from cqrs_cli.state.shard import install_shard
from cqrs_cli.system.lock import is_locked

#: Child processes start without this process's threads and clients.
_PROCESSES = multiprocessing.get_context("spawn")

#: Seconds between two reports of the progress.
_LOOK_EVERY = 0.5


class RebuildProgress(NamedTuple):
    """The progress: offsets of events and outcomes that are done, their total, and the seconds since the start."""

    done: int
    records: int
    seconds: float


class Rebuilt(NamedTuple):
    """A shard that was installed. `in_use`: an owner continues with the old shard until it ends."""

    shard: ShardSize
    in_use: bool


def rebuild_shards(
    plan: Plan, show: Callable[[RebuildProgress], None], note: Callable[[str], None], mounts: Path = MOUNTS
) -> dict[Partition, Rebuilt]:
    """Build the shards of all of a plan's partitions from the log, several at a time, and install them.

    An error, or Ctrl-C, before the last shard is complete leaves the old shards unchanged, and removes the new shards.
    Raises `ContradictionError`, `UnavailableError`, or `ConfigurationError` for a full disk.
    """
    partitions = plan.partitions()
    with ExitStack() as stack:
        folders = {one: stack.enter_context(_beside(plan.shard(one), mounts)) for one in partitions}
        builders = stack.enter_context(_Builders(plan, folders))
        built = builders.finish(show)
        return {one: _install(plan, one, folders[one], built[one], note) for one in partitions}


@contextmanager
def _beside(shard: Path, mounts: Path) -> Iterator[Path]:
    """Create an empty folder next to a shard, for the block."""
    reject_network_file_system(shard, mounts)
    with ExitStack() as stack:
        with translate_errors(shard):
            folder = stack.enter_context(temporary_folder(shard, "rebuild"))
        yield folder


def _install(
    plan: Plan, partition: Partition, folder: Path, built: ShardSize, note: Callable[[str], None]
) -> Rebuilt:
    path, aggregate = plan.shard(partition), load(partition.aggregate, plan.package, plan.root)
    in_use, identity = is_locked(path), plan.identity(partition, aggregate)
    install_shard(path, folder, identity, "rebuilt", note, plan.timing.shard_limits).close()
    return Rebuilt(built, in_use)


class _Builders:
    """The child processes that build, at most as many at a time as this process may use cores. Processes that still run
    at the end are killed.
    """

    def __init__(self, plan: Plan, folders: dict[Partition, Path]) -> None:
        self._slots = min(len(os.sched_getaffinity(0)), len(folders))
        self._plan = replace(plan, cache_bytes=plan.cache_bytes // max(1, self._slots))
        self._folders = folders
        self._waiting = list(folders)
        self._working: dict[Pipe, tuple[Partition, BaseProcess]] = {}
        self._done = dict.fromkeys(folders, 0)
        self._built: dict[Partition, ShardSize] = {}

    def __enter__(self) -> "_Builders":
        return self

    def __exit__(self, *_: object) -> None:
        for pipe, (_partition, process) in self._working.items():
            process.kill()
            process.join()
            pipe.close()

    def finish(self, show: Callable[[RebuildProgress], None]) -> dict[Partition, ShardSize]:
        """Build all shards; raises the first error."""
        sizes, began = _sizes(self._plan), time.monotonic()
        while self._waiting or self._working:
            while self._waiting and len(self._working) < self._slots:
                self._start(self._waiting.pop(0))
            for pipe in wait(list(self._working), _LOOK_EVERY):
                assert isinstance(pipe, Pipe)
                self._hear(pipe, sizes)
            show(RebuildProgress(sum(self._done.values()), sum(sizes.values()), time.monotonic() - began))
        return self._built

    def _start(self, partition: Partition) -> None:
        ours, theirs = _PROCESSES.Pipe(duplex=False)
        arguments = (self._plan, partition, self._folders[partition], theirs)
        process = _PROCESSES.Process(target=serve_build, args=arguments, daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()  # it inherits the mask: only this process gets Ctrl-C, and kills it
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._working[ours] = partition, process

    def _hear(self, pipe: Pipe, sizes: dict[Partition, int]) -> None:
        partition, process = self._working[pipe]
        try:
            word: int | ShardSize | CqrsError = pipe.recv()
        except EOFError:
            process.join()
            word = CqrsError(
                f"the process that built the shard of {partition.aggregate} partition {partition.number} "
                f"ended with code {process.exitcode}"
            )
        if isinstance(word, CqrsError):
            raise word
        if isinstance(word, ShardSize):
            self._built[partition], self._done[partition] = word, sizes[partition]
            del self._working[pipe]
            process.join()
            pipe.close()
        else:
            self._done[partition] = min(word, sizes[partition])


def _sizes(plan: Plan) -> dict[Partition, int]:
    """Return the sum of the ends of each partition's events and outcomes. A partition that does not exist yet has its
    parent's sum.
    """
    sizes: dict[Partition, int] = {}
    for name, described in plan.topics.items():
        topics = described.topics
        there = range(readers.partition_count(plan.connection, topics.commands))
        events, outcomes = (
            readers.bounds(plan.connection, topic, there) for topic in (topics.events, topics.outcomes)
        )
        for number in range(described.partitions):
            read = number % len(there)
            sizes[Partition(name, number)] = events[read][1] + outcomes[read][1]
    return sizes
