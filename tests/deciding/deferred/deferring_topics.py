"""An aggregate that defers commands, and its topics on the real broker."""

import json
import time
from pathlib import Path
from typing import Any

from cqrs_cli.core.deferral.entry import Deferral, read_deferral
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.kafka.connection.connection import Connection
from tests.support.commands import CommandRecord, command
from tests.support.harness import TopicHarness

AGGREGATE_CODE = """
from collections.abc import Iterator
from datetime import timedelta
import cqrs_cli as cqrs

class Count(cqrs.Command):
    ready: int = 0
    broken: bool = False

class Counted(cqrs.Event):
    pass

class Counter(cqrs.State):
    value: int = 0

def decide(command: Count, counter: Counter) -> Iterator[Counted]:
    if command.broken:
        raise RuntimeError("broken")
    if counter.value < command.ready:
        raise cqrs.Later(timedelta(milliseconds=1), f"{counter.value} of {command.ready}")
    yield Counted()

def evolve(counter: Counter, event: Counted) -> Counter:
    return Counter(counter.value + 1)

decider = cqrs.Decider(decide, evolve, Counter())
"""


def deferring_topics(connection: Connection, prefix: str, folder: Path) -> TopicHarness:
    """Return topics of an aggregate whose command is deferred until the count is `ready`."""
    package = folder / "deferring"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "threshold.py").write_text(AGGREGATE_CODE)
    return TopicHarness(connection, prefix, folder, "threshold", package="deferring", root=folder)


def count_command(id: str, subject: str = "a", ready: int = 0, **attributes: Any) -> CommandRecord:
    return command("threshold.Count", subject, id, {"ready": ready}, **attributes)


def cancel_command(id: str, subject: str = "a") -> CommandRecord:
    return command("cqrs.Cancel", subject, f"cancel-{id}", {"id": id})


def release_command(id: str, subject: str = "a") -> CommandRecord:
    return command("cqrs.Release", subject, f"release-{id}", {"id": id})


def near_future(milliseconds: int = 300) -> str:
    """Return a time shortly after the command arrives."""
    return rfc3339(time.time_ns() // 1_000_000 + milliseconds)


def outcome_summaries(harness: TopicHarness) -> list[tuple[str, ...]]:
    """Return (command id, status, reason) of each outcome, in order."""
    summaries: list[tuple[str, ...]] = []
    for outcome in harness.outcomes():
        data = json.loads(json.dumps({"status": outcome.data.status, "reason": outcome.data.reason or ""}))
        summaries.append((outcome.causationid or "", data["status"], data["reason"]))
    return summaries


def deferred_entries(harness: TopicHarness) -> dict[str, Deferral]:
    """Return the latest entries of the deferred topic, by command id."""
    latest = {record.key: record for record in harness.records("deferred")}
    entries = [read_deferral(key, record.value) for key, record in latest.items() if record.value is not None]
    return {entry.id: entry for entry in entries}


def outcomes_of(harness: TopicHarness, id: str) -> list[tuple[str, ...]]:
    """Return (status, reason) of a command's outcomes, in order."""
    return [(status, reason) for cause, status, reason in outcome_summaries(harness) if cause == id]
