"""Subscriptions to the events of accounts: a process manager, a projection and gateway streams, and their events.

Each subscription records all its events in order, so a missing, repeated or early event is visible.
"""

import json
import re
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.request import Request, urlopen

import msgspec

from cqrs_cli.core.messages.event import read_event
from tests.support.harness import TopicHarness

#: The versions of each account, in the order of arrival.
VersionsByAccount = dict[str, list[int]]

#: The process manager sends one command for each event, to a counter whose name starts with its own prefix.
PROCESS = """
from collections.abc import Iterator
from typing import Any

import cqrs_cli as cqrs
from aggregates.bank_account import Closed, Deposited, Opened, Withdrawn
from aggregates.counter import Increment


def react(event: Opened | Deposited | Withdrawn | Closed, at: cqrs.Recorded[Any]) -> Iterator[cqrs.Send]:
    yield cqrs.Send("counter", f"NAME/{at.aggregate_id}", Increment())


process = cqrs.Process(react)
"""

PROJECTION = """
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Column, Connection, MetaData, String, Table, Text

import cqrs_cli as cqrs
from aggregates.bank_account import Closed, Deposited, Opened, Withdrawn
from cqrs_cli.projections import upsert

metadata = MetaData()
stories = Table("stories", metadata, Column("id", String, primary_key=True), Column("versions", Text))


def project(db: Connection, events: Sequence[cqrs.Recorded[Opened | Deposited | Withdrawn | Closed]]) -> None:
    for event in events:
        text = f"{event.version} "
        upsert(db, stories, {"id": event.aggregate_id}, {"versions": text}, {"versions": stories.c.versions + text})


projection = cqrs.Projection(project, metadata)
"""


def write_subscribers(folder: Path, *processes: str) -> None:
    """Write the projection `stories` and these process managers into a project with aggregates."""
    codes = {"processes": {name: PROCESS.replace("NAME", name) for name in processes}}
    for package, modules in {**codes, "projections": {"stories": PROJECTION}}.items():
        (folder / package).mkdir()
        (folder / package / "__init__.py").touch()
        for name, code in modules.items():
            (folder / package / f"{name}.py").write_text(code)


def logged_versions(bank: TopicHarness) -> VersionsByAccount:
    """Return the versions of each account in the log, along the partitions of its key."""
    versions = defaultdict[str, list[int]](list)
    for partition in range(bank.partitions):  # a parent's number is lower than its target's
        for record in bank.records("events", partition):
            event = read_event(record.value)
            versions[event.subject].append(event.aggregateversion)
    return dict(versions)


def reaction_versions(bank: TopicHarness, counters: TopicHarness, name: str) -> VersionsByAccount:
    """Return the versions to which a process manager has reacted, in the order of its commands to each counter."""
    versions = {
        event.id: event.aggregateversion
        for partition in range(bank.partitions)
        for event in (read_event(record.value) for record in bank.records("events", partition))
    }
    versions_by_id = defaultdict[str, list[int]](list)
    for partition in range(counters.partitions):
        for record in counters.records("commands", partition):
            sent = msgspec.json.decode(record.value or b"")
            process, _, account = sent["subject"].partition("/")
            if process == name:
                versions_by_id[account].append(versions[sent["causationid"]])
    return dict(versions_by_id)


def projected_versions(database: Path) -> VersionsByAccount:
    """Return the projected versions of each account, in order."""
    with closing(sqlite3.connect(database)) as db:
        rows = db.execute("select id, versions from stories").fetchall()
    return {name: [int(version) for version in versions.split()] for name, versions in rows}


class StreamEvent(NamedTuple):
    """An event of a stream. `position` is the stream's position after the event, in all partitions: `0:12,1:7`."""

    position: str
    account: str
    version: int


class StreamClient(threading.Thread):
    """A client of a gateway's stream, which reconnects with its last position when the stream ends."""

    def __init__(self, address: Callable[[], str | None], earlier_events: Iterable[StreamEvent] = ()) -> None:
        """`address` returns the gateway's address, or None while it starts. `earlier_events` came before."""
        super().__init__(daemon=True)
        self.events = [*earlier_events]
        self.stopping = threading.Event()
        self._address = address
        self.start()

    def versions(self) -> VersionsByAccount:
        """Return the versions of each account that it has received."""
        versions = defaultdict[str, list[int]](list)
        for event in [*self.events]:
            versions[event.account].append(event.version)
        return dict(versions)

    def run(self) -> None:
        while not self.stopping.wait(0.1):
            if (address := self._address()) is not None:
                with suppress(OSError, HTTPException):
                    self._listen(address)

    def _listen(self, address: str) -> None:
        url, headers = f"{address}/bank_account", {"Accept": "text/event-stream"}
        if self.events:
            headers["Last-Event-ID"] = self.events[-1].position
        else:
            url += "?from=beginning"
        with urlopen(Request(url, headers=headers), timeout=20) as stream:
            members: dict[str, str] = {}
            for line in stream:
                name, _, members[name] = line.decode().rstrip("\n").partition(": ")
                if not name and "data" in members:
                    event = json.loads(members["data"])
                    self.events.append(
                        StreamEvent(members["id"], event["subject"], event["aggregateversion"])
                    )
                    members = {}
                if self.stopping.is_set():
                    return


def gateway_address(log: Path) -> str | None:
    """Return the address that a gateway has printed, or None."""
    matches = re.findall(r"http://[\d.]+:\d+", log.read_text())
    return matches[0] if matches else None
