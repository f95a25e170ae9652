"""An aggregate with commands that kill their process, and runs whose tasks are processes that may die."""

import json
import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cqrs_cli.deciding.plan import OwnerResult, Plan
from cqrs_cli.jobs.run import run_owners
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.runs.snapshot import Snapshot
from tests.support.commands import CommandRecord, command
from tests.support.driver import FakeSparkContext
from tests.support.harness import SHORT_TIMEOUTS, TopicHarness
from tests.support.owners import OwnerProcess
from tests.support.project import Project

_SOURCE = '''
"""Steps, some of which are traps."""

import ctypes
import os
import signal

import cqrs_cli as cqrs


class Step(cqrs.Command):
    trap: str = ""


class Stepped(cqrs.Event): ...


class Steps(cqrs.State):
    count: int = 0


def decide(command, steps):
    match command.trap:
        case "exit":
            os._exit(9)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "loop":
            while True:
                pass
        case "hold":
            sum(range(10**15))  # in C, so no other thread gets the interpreter
    yield Stepped()


def evolve(steps: Steps, event: Stepped) -> Steps:
    return Steps(steps.count + 1)


decide.__annotations__ = {"command": Step, "steps": Steps}
decider = cqrs.Decider(decide, evolve, Steps())
'''


def write_trap_aggregate(package: Path) -> None:
    """Add the aggregate `trap` to a package."""
    package.mkdir(exist_ok=True)
    (package / "__init__.py").touch()
    (package / "trap.py").write_text(textwrap.dedent(_SOURCE))


def trap_harness(connection: Connection, prefix: str, folder: Path, partitions: int = 2) -> TopicHarness:
    """Return the aggregate's topics. Its package is written into `folder`."""
    write_trap_aggregate(folder / "traps")
    return TopicHarness(connection, prefix, folder, "trap", partitions, package="traps", root=folder)


def trap_lines(prefix: str, count: int, traps: Mapping[int, str] = {}) -> list[dict[str, Any]]:
    """Return the lines of a file for `cqrs send`: steps with the ids `PREFIX-0` and so on, some of which are traps."""
    return [
        {
            "type": "trap.Step",
            "subject": f"{prefix}-{n}",
            "id": f"{prefix}-{n}",
            "data": {"trap": traps[n]} if n in traps else {},
        }
        for n in range(count)
    ]


def check_trap_project(project: Project, ids: set[str], failed: set[str]) -> None:
    """Check that each command of `ids` has one outcome, and that only the commands of `failed` failed.

    `cqrs verify` must find no violation.
    """
    outcomes = [
        json.loads(line)["message"]
        for line in project.cqrs("tail", "trap", "outcomes", "-o", "json").splitlines()
    ]
    assert Counter(outcome["causationid"] for outcome in outcomes) == dict.fromkeys(ids, 1)
    assert {o["causationid"] for o in outcomes if o["data"]["status"] == "failed"} == failed
    project.cqrs("verify", "trap", "--state")


def step_command(id: str, partition: int, trap: str = "") -> CommandRecord:
    """Return a command to a new aggregate. It goes to the given partition, not to the partition of its key."""
    return command("trap.Step", id, id, {"trap": trap})._replace(partition=partition)


def _failed(harness: TopicHarness) -> list[tuple[str | None, object, object]]:
    """Return id, reason and message of the commands that failed."""
    return [
        (outcome.causationid, outcome.data.reason, outcome.data.message)
        for partition in range(2)
        for outcome in harness.outcomes(partition)
        if outcome.data.status != "accepted"
    ]


def check_outcomes(harness: TopicHarness, counts: tuple[int, int], deadly: dict[str, str]) -> None:
    """Check that each command has one outcome, and that only the deadly commands failed.

    `counts`: the number of commands in partitions 0 and 1. `deadly`: command id → message of its outcome; all deadly
    commands are in partition 0.
    """
    for partition, count in enumerate(counts):
        assert [outcome.data.offset for outcome in harness.outcomes(partition)] == list(range(count))
        assert len(harness.records("dead-letters", partition)) == (len(deadly) if partition == 0 else 0)
    assert _failed(harness) == [(id, "HANDLER_ERROR", why) for id, why in deadly.items()]
    assert harness.violations("state") == []


#: Pauses between submissions that are short enough for a test.
SHORT_BACKOFF = replace(SHORT_TIMEOUTS, first_backoff=0.05, longest_backoff=1.0)

#: A test fails when so many processes of its run have died.
MAX_LOST_PROCESSES = 12


class ProcessRun:
    """A run whose tasks are processes. `lost_processes` counts the processes that died."""

    def __init__(self, **timing: Any) -> None:
        """`timing`: values of the processes' `Timing` other than the defaults."""
        self.lost_processes = 0
        self.notes: list[str] = []
        self._timing = timing

    def run(self, plan: Plan) -> Snapshot:
        """Run until all partitions have ended."""
        context: Any = FakeSparkContext(self._submit)
        return run_owners(context, plan, 1, lambda _: None, self._note)

    def _note(self, text: str) -> None:
        self.notes.append(text)
        assert self.lost_processes < MAX_LOST_PROCESSES, self.notes

    def _submit(self, plan: Plan) -> list[OwnerResult]:
        results = OwnerProcess(plan, batch_limit=5000, **self._timing).results()
        if results is None:
            self.lost_processes += 1
            raise RuntimeError("the worker is gone")
        return results
