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
from cqrs_cli.observer import message_listener, observing
from cqrs_cli.registry import load
from cqrs_cli.state.checkpoint.temporary_folder import temporary_folder
from cqrs_cli.state.errors import MOUNTS, reject_network_file_system, translate_errors
from cqrs_cli.state.shard import install_shard
from cqrs_cli.system.lock import is_locked

#: Child processes start without this process's threads and clients.
_PROCESSES = multiprocessing.get_context("spawn")

#: Seconds between two reports of the progress.
_POLL_INTERVAL = 0.5


class RebuildProgress(NamedTuple):
    """The progress of a rebuild."""

    done: int  # the number of records that are folded
    records: int  # the number of events and outcomes to fold
    seconds: float  # since the start


class RebuiltShard(NamedTuple):
    """A shard that was installed. `in_use`: an owner still uses the old shard, until the owner ends."""

    shard: ShardSize
    in_use: bool


def rebuild_shards(
    plan: Plan,
    show_progress: Callable[[RebuildProgress], None],
    report: Callable[[str], None],
    mounts: Path = MOUNTS,
) -> dict[Partition, RebuiltShard]:
    """Build the shards of all of a plan's partitions from the log, several at a time, and install them.

    An error, or Ctrl-C, before the last shard is complete leaves the old shards unchanged, and removes the new shards.
    Raises `ContradictionError`, `UnavailableError`, or `ConfigurationError` for a full disk.
    """
    partitions = plan.partitions()
    with ExitStack() as stack:
        folders = {
            partition: stack.enter_context(_temporary_folder_next_to(plan.shard_folder(partition), mounts))
            for partition in partitions
        }
        builders = stack.enter_context(_BuildProcesses(plan, folders))
        sizes = builders.build_all(show_progress)
        with observing(message_listener(report)):
            return {
                partition: _install(plan, partition, folders[partition], sizes[partition])
                for partition in partitions
            }


@contextmanager
def _temporary_folder_next_to(shard_folder: Path, mounts: Path) -> Iterator[Path]:
    """Create an empty folder next to a shard, and delete it after the `with` block."""
    reject_network_file_system(shard_folder, mounts)
    with ExitStack() as stack:
        with translate_errors(shard_folder):
            folder = stack.enter_context(temporary_folder(shard_folder, "rebuild"))
        yield folder


def _install(plan: Plan, partition: Partition, folder: Path, size: ShardSize) -> RebuiltShard:
    shard_folder, aggregate = plan.shard_folder(partition), load(partition.aggregate, plan.package, plan.root)
    in_use, identity = is_locked(shard_folder), plan.identity(partition, aggregate)
    install_shard(shard_folder, folder, identity, "rebuilt", plan.timing.shard_limits).close()
    return RebuiltShard(size, in_use)


class _BuildProcesses:
    """The child processes that build shards, at most one for each core that this process may use. Use as a context
    manager, which kills running child processes at its end.
    """

    def __init__(self, plan: Plan, folders: dict[Partition, Path]) -> None:
        self._slots = min(len(os.sched_getaffinity(0)), len(folders))
        self._plan = replace(plan, cache_bytes=plan.cache_bytes // max(1, self._slots))
        self._folders = folders
        self._queue = list(folders)
        self._running: dict[Pipe, tuple[Partition, BaseProcess]] = {}
        self._folded = dict.fromkeys(folders, 0)  # the number of folded records of each partition
        self._sizes: dict[Partition, ShardSize] = {}

    def __enter__(self) -> "_BuildProcesses":
        return self

    def __exit__(self, *_: object) -> None:
        for pipe, (_partition, process) in self._running.items():
            process.kill()
            process.join()
            pipe.close()

    def build_all(self, show_progress: Callable[[RebuildProgress], None]) -> dict[Partition, ShardSize]:
        """Build all shards; raises the first error."""
        log_sizes, started_at = _log_sizes(self._plan), time.monotonic()
        while self._queue or self._running:
            while self._queue and len(self._running) < self._slots:
                self._start(self._queue.pop(0))
            for pipe in wait(list(self._running), _POLL_INTERVAL):
                assert isinstance(pipe, Pipe)
                self._receive(pipe, log_sizes)
            show_progress(
                RebuildProgress(
                    sum(self._folded.values()), sum(log_sizes.values()), time.monotonic() - started_at
                )
            )
        return self._sizes

    def _start(self, partition: Partition) -> None:
        reader, writer = _PROCESSES.Pipe(duplex=False)
        arguments = (self._plan, partition, self._folders[partition], writer)
        process = _PROCESSES.Process(target=serve_build, args=arguments, daemon=True)
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()  # the child inherits the mask: only this process gets Ctrl-C, and kills the child
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        writer.close()
        self._running[reader] = partition, process

    def _receive(self, pipe: Pipe, log_sizes: dict[Partition, int]) -> None:
        """Handle a message of a child process: its progress, its result or its error, which is raised."""
        partition, process = self._running[pipe]
        try:
            message: int | ShardSize | CqrsError = pipe.recv()
        except EOFError:
            process.join()
            message = CqrsError(
                f"the process that built the shard of {partition.aggregate} partition {partition.number} "
                f"ended with code {process.exitcode}"
            )
        if isinstance(message, CqrsError):
            raise message
        if isinstance(message, ShardSize):
            self._sizes[partition], self._folded[partition] = message, log_sizes[partition]
            del self._running[pipe]
            process.join()
            pipe.close()
        else:
            self._folded[partition] = min(message, log_sizes[partition])


def _log_sizes(plan: Plan) -> dict[Partition, int]:
    """Return the number of events and outcomes of each partition, estimated by the ends of its logs. A partition that
    does not exist yet has the number of its parent.
    """
    sizes: dict[Partition, int] = {}
    for name, aggregate_topics in plan.topics.items():
        topics = aggregate_topics.topics
        existing_partitions = range(readers.partition_count(plan.connection, topics.commands))
        events, outcomes = (
            readers.bounds(plan.connection, topic, existing_partitions)
            for topic in (topics.events, topics.outcomes)
        )
        for number in range(aggregate_topics.partitions):
            log_partition = number % len(existing_partitions)
            sizes[Partition(name, number)] = events[log_partition][1] + outcomes[log_partition][1]
    return sizes
