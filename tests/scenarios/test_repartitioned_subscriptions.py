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
from tests.support.project import LOCAL_MASTER, Project, await_repartitioned
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


class Companions(NamedTuple):
    projection: Companion
    gateway: Companion
    stream_clients: list[StreamClient]


@pytest.fixture
def bank(project: Project) -> TopicHarness:
    write_subscribers(project.folder, "before", "during", "after")
    bank = project.harness("bank_account", 2)
    project.harness("counter", 1)
    project.cqrs("init")
    return bank


@contextmanager
def running_companions(project: Project) -> Iterator[Companions]:
    """Run a projection and a gateway with one stream client while the block lasts."""
    gateway = Companion(project, "serve", "bank_account", "--port", "0")
    projection = Companion(
        project, "project", "stories", *database_options(DATABASES[0]), "--master", "local[1]"
    )
    companions = Companions(projection, gateway, [StreamClient(partial(gateway_address, gateway.log))])
    try:
        yield companions
    finally:
        for client in companions.stream_clients:
            client.stopping.set()
        projection.end()
        gateway.end()


@contextmanager
def running_decider(project: Project, name: str) -> Iterator["subprocess.Popen[str]"]:
    """Run `cqrs run` while the block lasts. Its output goes to a file, because a pipe without a reader would fill."""
    with (project.folder / f"{name}.log").open("wb") as log:
        run = project.start_logging(log, *RUN)
        try:
            yield run
        finally:
            if run.poll() is None:
                os.killpg(run.pid, signal.SIGKILL)
            run.wait(timeout=30)


def database_options(database: str) -> tuple[str, str]:
    return "--to", f"sqlite:///{database}"


def catch_up(project: Project, *processes: str) -> None:
    """Let process managers that start at the beginning, and a projection, read all events."""
    process_options = [option for name in processes for option in ("--process", name)]
    project.cqrs("run", *process_options, "--from", "beginning", "--once", *LOCAL_MASTER)
    project.cqrs("project", "stories", *database_options(DATABASES[1]), "--once")


def await_another_round(clients: list[Client]) -> None:
    """Wait until each client has the outcomes of another round."""
    rounds_before = [client.rounds for client in clients]
    eventually(
        lambda: all(client.rounds > rounds for client, rounds in zip(clients, rounds_before, strict=True)),
        within=120,
    )


def repartition_during_run(project: Project, bank: TopicHarness, companions: Companions) -> None:
    """Repartition, kill the gateway, and add a stream client that resumes at the position of the first."""
    project.cqrs("repartition", "bank_account", "--partitions", "4")
    bank.partitions = 4
    catch_up(project, "during")
    companions.stream_clients.append(
        StreamClient(partial(gateway_address, companions.gateway.log), companions.stream_clients[0].events)
    )
    companions.gateway.kill()


@pytest.mark.covers("growing")
def test_subscriptions_survive_a_repartitioning(project: Project, bank: TopicHarness) -> None:
    with running_companions(project) as companions, ExitStack() as runs:
        first = runs.enter_context(running_decider(project, "first"))
        positions = ProcessTopics("before", project.prefix)
        eventually(lambda: len(read_positions(project.connection, positions)) == 2, within=120)
        with traffic(bank, clients=2, stale=1) as clients:
            await_another_round(clients)
            eventually(companions.stream_clients[0].versions, within=120)
            repartition_during_run(project, bank, companions)
            second = runs.enter_context(running_decider(project, "second"))
            assert first.wait(timeout=240) == 6
            await_repartitioned(project, "bank_account", within=120)
            await_another_round(clients)
        assert [client.error for client in clients] == [None] * 2
        check(project, bank, companions)
        second.terminate()
        assert second.wait(timeout=60) == 143


def check(project: Project, bank: TopicHarness, companions: Companions) -> None:
    """Check that each subscription got all versions of each account once, in order."""
    counters, expected = project.harness("counter", 1), logged_versions(bank)
    assert all(versions == [*range(1, len(versions) + 1)] for versions in expected.values())
    for client in companions.stream_clients:
        eventually(lambda client=client: client.versions() == expected, within=120)  # type: ignore[misc]

    def is_projected() -> bool:
        companions.projection.revive()  # it ended because the partition count changed
        return projected_versions(project.folder / DATABASES[0]) == expected

    eventually(is_projected, within=120)
    catch_up(project, "during", "after")
    assert projected_versions(project.folder / DATABASES[1]) == expected
    eventually(lambda: reaction_versions(bank, counters, "before") == expected, within=120)
    assert [reaction_versions(bank, counters, process) for process in ("during", "after")] == [expected] * 2
