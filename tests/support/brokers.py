"""A broker for one test, which may kill, stop and restart it."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.embedded import broker as embedded
from cqrs_cli.kafka.embedded import files
from cqrs_cli.system import process
from tests.support.waiting import eventually


class Broker:
    """The embedded broker of the project in `root`, for a minute or two. It restarts on the same port."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._running = embedded.start_broker(root, short_lived=True, require_login=False)
        self.connection = Connection(self._running.bootstrap_server)

    def start(self) -> None:
        """Start the broker again with its old data."""
        self._running = embedded.start_broker(self._root, short_lived=True, require_login=False)
        assert self._running.bootstrap_server == self.connection.bootstrap_server

    def kill(self) -> None:
        """Kill the broker with SIGKILL, as a power loss does."""
        self.signal(signal.SIGKILL)
        eventually(lambda: process.start_time(self._running.pid) is None)

    def signal(self, signal_number: int) -> None:
        os.kill(self._running.pid, signal_number)


@contextmanager
def broker(root: Path) -> Iterator[Broker]:
    """Start a broker, and delete it after the block."""
    try:
        yield Broker(root)
    finally:
        discard(root)


def discard(root: Path) -> None:
    """Kill the broker of the project in `root`, whose data is not needed. An orderly shutdown takes many seconds."""
    if state := files.read_state(files.broker_folder(root)):
        process.terminate(state.pid, state.born, timeout=0)
