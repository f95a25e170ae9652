"""Companions of a run in a soak: a process manager, a projection and a gateway, which get faults too."""

import json
import os
import random
import re
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

from cqrs_cli.core.messages.event import read_event
from tests.support.harness import TopicHarness
from tests.support.processes import living_processes, process_tree
from tests.support.project import Project
from tests.support.waiting import eventually

#: For each opened account, a command to another aggregate counts it.
PROCESS = """
from collections.abc import Iterator
from typing import Any

import cqrs_cli as cqrs
from aggregates.bank_account import Opened
from aggregates.counter import Increment


def react(event: Opened, at: cqrs.Recorded[Any]) -> Iterator[cqrs.Send]:
    yield cqrs.Send("counter", at.aggregate_id, Increment())


process = cqrs.Process(react)
"""

#: Rows that would become wrong if an event were projected twice or skipped.
PROJECTION = """
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, Integer, MetaData, String, Table

import cqrs_cli as cqrs
from aggregates.bank_account import Closed, Deposited, Opened, Withdrawn
from cqrs_cli.projections import upsert

metadata = MetaData()
accounts = Table(
    "accounts", metadata, Column("id", String, primary_key=True), Column("version", Integer), Column("events", Integer)
)


def project(db: Connection, events: Sequence[cqrs.Recorded[Opened | Deposited | Withdrawn | Closed]]) -> None:
    for event in events:
        key, new = {"id": event.aggregate_id}, {"version": event.version, "events": 1}
        upsert(db, accounts, key, new, {"version": event.version, "events": accounts.c.events + 1})


projection = cqrs.Projection(project, metadata)
"""

#: Timeout in seconds until a killed companion has ended, and until a companion has caught up.
TIMEOUT = 120.0

ACCOUNTS = ("--to", "sqlite:///accounts.db", "--master", "local[1]")


class Companion:
    """A command that runs in addition to `cqrs run`, and is restarted after each fault."""

    def __init__(self, project: Project, *arguments: str) -> None:
        self._project, self._arguments = project, arguments
        self.log = project.folder / f"{arguments[0]}.log"
        self._start()

    def _start(self) -> None:
        with self.log.open("wb") as log_file:
            self._running = self._project.start_logging(log_file, *self._arguments)

    def kill(self) -> None:
        """Kill all its processes with SIGKILL, and start it again."""
        self.end()
        self._start()

    def pause(self, stopping: threading.Event, seconds: float) -> None:
        """Stop its process for some seconds."""
        os.kill(self._running.pid, signal.SIGSTOP)
        stopping.wait(seconds)
        os.kill(self._running.pid, signal.SIGCONT)

    def revive(self) -> None:
        """Start it again if it has ended, as a service manager does.

        It may only end because Kafka was away at its start.
        """
        if self._running.poll() is not None:
            assert self._running.returncode == 4, self.log.read_text()
            self._start()

    def end(self) -> None:
        """Kill all its processes with SIGKILL."""
        pids = living_processes(process_tree(self._running.pid))
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self._running.wait(TIMEOUT)
        eventually(lambda: not living_processes(pids))


class Companions:
    """The companions of one soak."""

    def __init__(self, project: Project, bank: TopicHarness, generator: random.Random) -> None:
        self._project, self._bank, self._random = project, bank, generator
        self._companions = {
            "projection": Companion(project, "project", "accounts", *ACCOUNTS),
            "gateway": Companion(project, "serve", "bank_account", "--port", "0"),
        }

    def faults(self, stopping: threading.Event) -> list[Callable[[], str]]:
        """Return the faults that a companion may get."""
        return [self._kill, lambda: self._pause(stopping)]

    def _kill(self) -> str:
        name = self._choose()
        self._companions[name].kill()
        return f"killed the {name}, started again"

    def _pause(self, stopping: threading.Event) -> str:
        name, seconds = self._choose(), self._random.uniform(0.5, 5)
        self._companions[name].pause(stopping, seconds)
        return f"paused the {name} for {seconds:.1f} s"

    def _choose(self) -> str:
        self._revive()
        return self._random.choice(sorted(self._companions))

    def check(self) -> None:
        """Check that every companion agrees with the log."""
        versions = self._versions()
        self._revive()
        eventually(lambda: self._served(versions) == versions, TIMEOUT)
        self.end()
        self._project.cqrs("project", "accounts", "--once", *ACCOUNTS)
        with closing(sqlite3.connect(self._project.folder / "accounts.db")) as db:
            rows = db.execute("select id, version, events from accounts").fetchall()
        assert {name: (version, events) for name, version, events in rows} == {
            name: (version, version) for name, version in versions.items()
        }
        self._project.cqrs("verify", "--process", "openings")  # would end with 5

    def _revive(self) -> None:
        for companion in self._companions.values():
            companion.revive()

    def _versions(self) -> dict[str, int]:
        """Return the version of each account, from its events."""
        versions: dict[str, int] = {}
        for partition in range(self._bank.partitions):
            for record in self._bank.records("events", partition):
                event = read_event(record.value)
                assert event.aggregateversion == versions.get(event.subject, 0) + 1
                versions[event.subject] = event.aggregateversion
        return versions

    def _served(self, expected: dict[str, int]) -> dict[str, int]:
        """Return the versions of these accounts, as the gateway serves them."""
        address = re.findall(r"http://[\d.]+:\d+", self._companions["gateway"].log.read_text())
        try:
            return {name: _version(f"{address[0]}/bank_account/{name}") for name in expected}
        except (IndexError, OSError):  # the gateway is starting
            return {}

    def end(self) -> None:
        """Kill all companions."""
        for companion in self._companions.values():
            companion.end()


def write_project(folder: Path) -> None:
    """Write the process manager and the projection into a project with aggregates."""
    for package, name, code in (("processes", "openings", PROCESS), ("projections", "accounts", PROJECTION)):
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
        (folder / package / f"{name}.py").write_text(code)


def _version(url: str) -> int:
    with urlopen(url, timeout=10) as response:
        return int(json.load(response)["version"])
