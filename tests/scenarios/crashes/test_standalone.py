"""A standalone cluster of two workers, which have the same installation but not the project's folder."""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from cqrs_cli import failpoints
from cqrs_cli.jobs.engine.spark_archive import executor_archive
from cqrs_cli.kafka import offsets
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import parse_claim
from cqrs_cli.system.java import find_java
from tests.support.archives import mapped_archives
from tests.support.processes import executors_of, process_tree, python_workers
from tests.support.project import Project, await_decided, bank_command
from tests.support.standalone import Cluster, cluster
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]


def has_mapped_archive(worker: int) -> bool:
    """True if an executor of the worker has mapped the executors' class data archive, or if no archive exists."""
    archive = executor_archive(find_java()).find()
    return archive is None or any(archive in mapped_archives(pid) for pid in process_tree(worker))


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster of two workers for the tests of every CI run."""
    with cluster(tmp_path_factory.mktemp("cluster")) as standalone:
        yield standalone


def test_a_cluster_run_ships_its_aggregates(
    project: Project, standalone: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project.cqrs("init", "bank_account", "counter")
    project.send([bank_command("Open", f"a-{n}", {"owner": "ann"}) for n in range(50)])
    project.send([{"type": "counter.Increment", "subject": f"n-{n}", "data": {}} for n in range(50)])
    summary = project.json(
        *("run", "bank_account", "counter", "--once", "--master", standalone.master),
        *("--state-dir", str(tmp_path_factory.mktemp("state"))),
    )
    assert (summary["accepted"], summary["commands"]) == (100, 100)
    assert {name: sums["accepted"] for name, sums in summary["aggregates"].items()} == {
        "bank_account": 50,
        "counter": 50,
    }


@pytest.mark.covers("one-outcome")
def test_worker_lost_mid_commit_costs_nothing(project: Project, standalone: Cluster) -> None:
    """After the loss of a worker, another machine continues without its state, and decides each command once.

    This is the last test of the shared cluster.
    """
    reached = project.folder / "reached"
    project.cqrs("init", "bank_account", "counter")
    project.send([bank_command("Open", f"a-{n}", {"owner": "ann"}) for n in range(200)])
    # a core on each worker; an executor has its own folder, which is deleted with it
    arguments = ("--conf", "spark.cores.max=2", "--state-dir", "/proc/self/cwd/state")
    # The third commit follows the claims of the worker's two partitions.
    variables = {failpoints.VARIABLE: f"commit.sent:3:wait@{reached}"}
    with project.running(
        "run", "bank_account", "--master", standalone.master, *arguments, **variables
    ) as run:
        eventually(reached.exists, within=240)
        standalone.lose(standalone.worker_of(int(reached.read_text())))
        project.send([bank_command("Deposit", f"a-{n % 200}", {"amount": 1}) for n in range(1000)])
        await_decided(project, 1200, ["bank_account"])
        run.send_signal(signal.SIGTERM)
        assert run.wait(90) == 143
    outcomes = project.outcomes()
    assert Counter(outcome["data"]["status"] for outcome in outcomes) == {"accepted": 1200}
    assert len({outcome["id"] for outcome in outcomes}) == 1200
    assert project.replay("bank_account").events == 1200


@pytest.mark.nightly
@pytest.mark.covers("one-owner")
def test_machines_join_and_are_lost(project: Project, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Partitions move to a machine that joins. After its loss, the run continues with the remaining slots."""
    cluster_folder: Path = tmp_path_factory.mktemp("workers")
    project.cqrs("init", "counter")

    def send_and_await(count: int) -> None:
        project.send([{"type": "counter.Increment", "subject": f"n-{n}", "data": {}} for n in range(100)])
        await_decided(project, count, ("counter",))

    def submissions() -> list[int]:
        claims = offsets.committed_offsets_now(
            project.connection, Topics("counter", project.prefix), range(4)
        )
        return [claim.submission for offset in claims.values() if (claim := parse_claim(offset.metadata))]

    with cluster(cluster_folder, workers=1) as spark:
        arguments = ("--master", spark.master, "--state-dir", "/proc/self/cwd/state")
        with project.running("run", "counter", *arguments) as run:
            send_and_await(100)
            assert has_mapped_archive(spark.workers[0].pid)
            assert submissions() == [0, 0, 0, 0]
            spark.join()
            eventually(lambda: sorted(submissions()) == [0, 0, 1, 1], within=120)
            send_and_await(200)
            spark.lose(1)
            send_and_await(300)
            assert submissions() == [2, 2, 2, 2]
            run.send_signal(signal.SIGTERM)
            _, output = run.communicate(timeout=90)
            assert run.returncode == 143
    assert "2 more slots: moving 2 partitions to them" in output
    assert "4 tasks have 2 slots: restarting with 2" in output
    assert project.replay("counter").events == 300


@pytest.mark.nightly
@pytest.mark.covers("one-owner")
def test_drained_machine_gives_up_all_partitions(
    project: Project, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The partitions of a drained machine move to free slots, and its executor ends without a lost task."""
    cluster_folder: Path = tmp_path_factory.mktemp("workers")
    project.cqrs("init", "counter", "--partitions", "2")

    def send_and_await(count: int) -> None:
        project.send([{"type": "counter.Increment", "subject": f"n-{n}", "data": {}} for n in range(100)])
        await_decided(project, count, ("counter",))

    with cluster(cluster_folder) as spark:
        arguments = ("--master", spark.master, "--state-dir", "/proc/self/cwd/state")
        with project.running("run", "counter", *arguments) as run:
            send_and_await(100)
            busy_worker = next(worker for worker in spark.workers if python_workers(process_tree(worker.pid)))
            spark.drain(spark.workers.index(busy_worker))
            eventually(lambda: not executors_of(busy_worker.pid), within=120)
            send_and_await(200)
            run.send_signal(signal.SIGTERM)
            _, output = run.communicate(timeout=90)
            assert run.returncode == 143
    assert "an executor is drained: " in output
    assert "lost" not in output and "again" not in output
    assert project.replay("counter").events == 200
