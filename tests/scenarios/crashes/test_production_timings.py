"""A run that is older than five minutes keeps the guarantees, with the timings of production.

The other tests of crashes shorten the timings, and their runs are young. A timeout that is wrongly measured from the
start of a run, instead of from the event that it follows, ends only an old run.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli.kafka.connection.connection import Connection
from tests.support.brokers import Broker, broker
from tests.support.deadly_commands import check_trap_project, trap_lines, write_trap_aggregate
from tests.support.processes import process_tree, python_workers
from tests.support.project import LOCAL_MASTER, Project, await_decided
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.nightly]

#: Seconds: more than every timeout of `Timing` that a run might measure from its start.
AGE = 310


@pytest.fixture
def killable_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that this test may kill; no other test uses it."""
    with broker(tmp_path_factory.mktemp("mortal")) as running_broker:
        yield running_broker


@pytest.fixture
def connection(killable_broker: Broker) -> Connection:
    """The connection to the broker that may be killed. `project` uses it."""
    return killable_broker.connection


class OldRun:
    """A run of the installed `cqrs`, and the commands that were sent to it."""

    def __init__(self, project: Project, run: "subprocess.Popen[str]") -> None:
        self.project, self.run = project, run
        self.ids: set[str] = set()

    def send(self, prefix: str, trap_by_index: dict[int, str] | None = None) -> None:
        lines = trap_lines(prefix, 80, trap_by_index or {})
        self.project.send(lines)
        self.ids |= {line["id"] for line in lines}

    def check_all_decided(self) -> None:
        await_decided(self.project, len(self.ids), ["trap"])
        assert self.run.poll() is None, "the run has ended"

    def wait_for_age(self) -> None:
        with pytest.raises(subprocess.TimeoutExpired):
            self.run.wait(AGE)

    def kill_workers(self) -> None:
        workers = eventually(lambda: python_workers(process_tree(self.run.pid)))
        for worker in workers:
            os.kill(worker, signal.SIGKILL)


@pytest.mark.covers("endless-command", "deadly-command", "one-outcome")
def test_old_run_survives_every_loss(project: Project, killable_broker: Broker, tmp_path: Path) -> None:
    write_trap_aggregate(project.folder / "aggregates")
    project.cqrs("init", "trap")
    with (tmp_path / "run.log").open("wb") as log:
        run = project.start_logging(log, "run", "trap", *LOCAL_MASTER)
        try:
            old = OldRun(project, run)
            old.send("young")
            old.check_all_decided()
            old.wait_for_age()
            old.send("worker")
            old.kill_workers()
            old.check_all_decided()
            old.send("deadly", {40: "kill"})
            old.check_all_decided()
            old.send("endless", {40: "loop"})
            old.check_all_decided()
            old.send("broker")
            killable_broker.kill()
            killable_broker.start()
            old.check_all_decided()
        finally:
            os.killpg(run.pid, signal.SIGKILL)
            run.wait(30)
    check_trap_project(project, old.ids, {"deadly-40", "endless-40"})
