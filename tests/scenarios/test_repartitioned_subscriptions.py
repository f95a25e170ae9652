"""A projection, process managers and a gateway during a repartitioning: each gets all events once, in order."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import NamedTuple

import pytest

from cqrs_cli.following.processes.positions import read_positions
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from tests.support.harness import TopicHarness
from tests.support.project import LOCAL_MASTER, Project, repartitioning_stages
from tests.support.soak_companions import Companion
from tests.support.subscribers import (
    StreamClient,
    gateway_address,
    logged_versions,
    projected_versions,
    reaction_versions,
    write_subscribers,
)
from tests.support.traffic import Client, traffic
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow, pytest.mark.nightly]

RUN = ("run", "bank_account", "counter", "--process", "before", *LOCAL_MASTER)

#: The databases of a projection that starts before the repartitioning, and of a projection that starts during it.
DATABASES = ("before.db", "during.db")


class Beside(NamedTuple):
    projection: Companion
    gateway: Companion
    listeners: list[StreamClient]


@pytest.fixture
def bank(project: Project) -> TopicHarness:
    write_subscribers(project.folder, "before", "during", "after")
    bank = project.harness("bank_account", 2)
    project.harness("counter", 1)
    project.cqrs("init")
    return bank


@contextmanager
def beside(project: Project) -> Iterator[Beside]:
    """Run a projection and a gateway with one listener while the block lasts."""
    gateway = Companion(project, "serve", "bank_account", "--port", "0")
    projection = Companion(project, "project", "stories", *to(DATABASES[0]), "--master", "local[1]")
    companions = Beside(projection, gateway, [StreamClient(partial(gateway_address, gateway.log))])
    try:
        yield companions
    finally:
        for listener in companions.listeners:
            listener.stopping.set()
        projection.end()
        gateway.end()


@contextmanager
def deciding(project: Project, name: str) -> Iterator["subprocess.Popen[str]"]:
    """Run `cqrs run` while the block lasts. Its output goes to a file, because a pipe without a reader would fill."""
    with (project.folder / f"{name}.log").open("wb") as log:
        run = project.start_logging(log, *RUN)
        try:
            yield run
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
            run.wait(timeout=30)


def to(database: str) -> tuple[str, str]:
    return "--to", f"sqlite:///{database}"


def followed_once(project: Project, *processes: str) -> None:
    """Processes that hear all from the beginning, and a projection: begun now, or going on."""
    named = [word for name in processes for word in ("--process", name)]
    project.cqrs("run", *named, "--from", "beginning", "--once", *LOCAL_MASTER)
    project.cqrs("project", "stories", *to(DATABASES[1]), "--once")


def more_rounds(clients: list[Client]) -> None:
    """Wait until each client has the outcomes of another round."""
    reached = [client.rounds for client in clients]
    eventually(
        lambda: all(client.rounds > was for client, was in zip(clients, reached, strict=True)), within=120
    )


def grow(project: Project, bank: TopicHarness, companions: Beside) -> None:
    """Repartition during a run, kill the gateway, and add a listener that continues at the position of the first."""
    project.cqrs("repartition", "bank_account", "--partitions", "4")
    bank.partitions = 4
    followed_once(project, "during")
    companions.listeners.append(
        StreamClient(partial(gateway_address, companions.gateway.log), companions.listeners[0].events)
    )
    companions.gateway.kill()


@pytest.mark.covers("growing")
def test_followers_go_through_a_growth(project: Project, bank: TopicHarness) -> None:
    with beside(project) as companions, ExitStack() as runs:
        first = runs.enter_context(deciding(project, "first"))
        positions = ProcessTopics("before", project.prefix)
        eventually(lambda: len(read_positions(project.connection, positions)) == 2, within=120)
        with traffic(bank, clients=2, stale=1) as clients:
            more_rounds(clients)
            eventually(companions.listeners[0].versions, within=120)
            grow(project, bank, companions)
            second = runs.enter_context(deciding(project, "second"))
            assert first.wait(timeout=240) == 6
            eventually(lambda: repartitioning_stages(project, "bank_account") == [None] * 4, within=120)
            more_rounds(clients)
        assert [client.error for client in clients] == [None] * 2
        check(project, bank, companions)
        second.terminate()
        assert second.wait(timeout=60) == 143


def check(project: Project, bank: TopicHarness, companions: Beside) -> None:
    """Check that each subscription got all versions of each account once, in order."""
    counters, expected = project.harness("counter", 1), logged_versions(bank)
    assert all(versions == [*range(1, len(versions) + 1)] for versions in expected.values())
    for listener in companions.listeners:
        eventually(lambda listener=listener: listener.versions() == expected, within=120)  # type: ignore[misc]

    def is_projected() -> bool:
        companions.projection.revive()  # it ended because the partition count changed
        return projected_versions(project.folder / DATABASES[0]) == expected

    eventually(is_projected, within=120)
    followed_once(project, "during", "after")
    assert projected_versions(project.folder / DATABASES[1]) == expected
    eventually(lambda: reaction_versions(bank, counters, "before") == expected, within=120)
    assert [reaction_versions(bank, counters, process) for process in ("during", "after")] == [expected] * 2
