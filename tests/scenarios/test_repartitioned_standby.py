"""Topics, code or settings change while a standby runs: it splits the partitions, or ends to be started again."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support.project import (
    LOCAL_MASTER,
    Project,
    await_decided,
    await_repartitioned,
    counter_increments,
)
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

COUNTER = ["counter"]


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def is_ready(port: int, query: str = "") -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz{query}", timeout=5) as response:
            return bool(json.load(response)["ready"])
    except (urllib.error.URLError, OSError):
        return False


@contextmanager
def active_run(project: Project) -> Iterator[Any]:
    """A run that has decided 20 commands."""
    project.cqrs("init", "counter", "--partitions", "2")
    with project.running("run", "counter", *LOCAL_MASTER) as active:
        project.send(counter_increments(20))
        await_decided(project, 20, COUNTER)
        yield active


@contextmanager
def ready_standby(project: Project) -> Iterator[tuple[Any, int]]:
    """A standby that is ready, and its port."""
    port = free_port()
    options = ["--standby", "--state-dir", "second", "--metrics-address", str(port)]
    with project.running("run", "counter", *LOCAL_MASTER, *options) as standby:
        eventually(lambda: is_ready(port, "?standby"), within=60)
        yield standby, port


def status(project: Project) -> dict[str, Any]:
    (aggregate,) = project.json("status", "counter")["aggregates"].values()
    return dict(aggregate)


def owners(project: Project) -> set[str]:
    """Return the runs in the claims of the partitions."""
    return {partition["owner"]["run"] for partition in status(project)["partitions"]}


@pytest.mark.covers("growing")
def test_standby_splits_without_a_restart(project: Project) -> None:
    with active_run(project) as active, ready_standby(project) as (standby, port):
        (first,) = owners(project)
        project.cqrs("repartition", "counter", "--partitions", "4")
        project.send(counter_increments(20))
        await_decided(project, 40, COUNTER)
        await_repartitioned(project, "counter")
        eventually(lambda: is_ready(port), within=60)
        assert active.wait(timeout=90) == 6 and standby.poll() is None
        assert first not in owners(project)  # and only the standby process is left
    assert project.replay("counter").events == 40


def test_standby_ends_when_files_change(project: Project) -> None:
    """A service manager starts it again with the current files. The active run continues with the files it has read."""
    with active_run(project) as active:
        for file in ("cqrs.toml", "aggregates/counter.py"):
            with ready_standby(project) as (standby, _):
                with (project.folder / file).open("a") as changed:
                    changed.write("# changed\n")
                assert standby.wait(timeout=60) == 1
                assert f"error: changed since this standby started: {file}" in standby.stderr.read()
        project.send(counter_increments(20))
        await_decided(project, 40, COUNTER)
        assert active.poll() is None
