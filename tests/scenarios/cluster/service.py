"""A `cqrs run` on the cluster while brokers come and go, and the clients that send commands to it."""

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice

from confluent_kafka import KafkaException

from cqrs_cli.errors import UnavailableError
from cqrs_cli.kafka import offsets, readers
from cqrs_cli.state.shard import open_readonly
from tests.scenarios.cluster.brokers import RECOVERY_TIMEOUT
from tests.support.commands import mixed_commands
from tests.support.harness import TopicHarness
from tests.support.project import Project
from tests.support.waiting import eventually

#: Partition → offset. Empty if the cluster does not answer.
Offsets = dict[int, int]


class Service:
    """A process of `cqrs run bank_account`, observed by its output, its commits and its shards."""

    def __init__(self, project: Project, harness: TopicHarness) -> None:
        self.project, self.harness = project, harness
        self._commands = mixed_commands(1_000_000, accounts=200)
        self._log = project.folder / "run.log"
        state = str(harness.folder / "state")
        with self._log.open("wb") as log:
            self.process = project.start_logging(
                log, *("run", "bank_account", "--master", "local[2]", "--state-dir", state)
            )

    def output(self) -> str:
        """Return the output of the run so far, stdout and stderr."""
        return self._log.read_text(encoding="utf-8")

    def is_running(self) -> bool:
        """True while the run lives; fails if it has ended."""
        assert self.process.poll() is None, self.output()
        return True

    def stop(self) -> int:
        """Stop the run and return its exit status. After 60 seconds without an exit, kill it with all its processes."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            return self.process.wait(60)

    @contextmanager
    def sending_commands(self) -> Iterator[None]:
        """Send commands of all kinds to all partitions while the block lasts.

        About a hundred commands a second: more would leave no CPU time for three brokers on two cores.
        """
        stop, failures = threading.Event(), list[Exception]()

        def send_batches() -> None:
            try:
                while not stop.wait(0.2):
                    self._send(20, stop)
            except Exception as error:
                failures.append(error)

        client = threading.Thread(target=send_batches, daemon=True)
        client.start()
        try:
            yield
        finally:
            stop.set()
            client.join()
        assert failures == []

    def _send(self, count: int, stop: threading.Event) -> None:
        """Send `count` more commands and wait for the acknowledgements. Reconnects when the client is stuck."""
        commands = list(islice(self._commands, count))
        while not stop.is_set():
            try:
                self.harness.send(*commands)
                return
            except AssertionError:
                self.harness.reconnect()

    def await_progress(self) -> None:
        """Wait until commands that arrive from now on are decided, on every partition."""
        ends = eventually(self.command_ends, RECOVERY_TIMEOUT)
        next_offsets = {partition: offset + 1 for partition, offset in ends.items()}
        eventually(lambda: self._has_reached(self.command_ends, next_offsets), RECOVERY_TIMEOUT)
        eventually(lambda: self._has_reached(self.committed_offsets, next_offsets), RECOVERY_TIMEOUT)

    def await_all_decided(self) -> None:
        """Wait until all commands are decided and folded into the shards."""
        ends = eventually(self.command_ends, RECOVERY_TIMEOUT)
        eventually(lambda: self._has_reached(self.committed_offsets, ends), RECOVERY_TIMEOUT)
        eventually(lambda: self._has_reached(self._shard_positions, ends))

    def _has_reached(self, read_offsets: Callable[[], Offsets], expected: Offsets) -> bool:
        offsets_now = read_offsets() if self.is_running() else {}
        return all(offsets_now.get(partition, -1) >= offset for partition, offset in expected.items())

    def command_ends(self) -> Offsets:
        """Return the end offsets of the commands topic; empty if the broker does not know them."""
        topic, partitions = self.harness.topics.commands, range(self.harness.partitions)
        try:
            ends = readers.bounds(self.harness.connection, topic, partitions, "read_uncommitted")
        except (UnavailableError, readers.MissingPartitionError, KafkaException):
            return {}
        return {partition: end for partition, (_, end) in ends.items()}

    def committed_offsets(self) -> Offsets:
        """Return the offsets that the run has committed."""
        topics, partitions = self.harness.topics, range(self.harness.partitions)
        try:
            claims = offsets.committed_offsets_now(self.harness.connection, topics, partitions)
        except (UnavailableError, KafkaException):
            return {}
        return {partition: claim.offset for partition, claim in claims.items() if claim.offset is not None}

    def _shard_positions(self) -> Offsets:
        positions = {}
        for partition in range(self.harness.partitions):
            store = open_readonly(self.harness.shard_path(partition=partition))
            if store is not None:
                positions[partition] = store.positions().commands
                store.close_without_sync()
        return positions
