"""The worker, the executor or the driver is killed between any two steps of the protocol; then a run is started again.

In local mode the executor is Spark's JVM. The remaining processes of a killed run must end by themselves.
"""

import os
import signal
import uuid
from typing import NamedTuple

import pytest

from cqrs_cli.core.digest import as_hex
from cqrs_cli.failpoints import VARIABLE
from cqrs_cli.kafka.connection.connection import Connection
from tests.support.commands import mixed_commands
from tests.support.failpoints import ALWAYS_PASSED
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.processes import living_processes, process_tree, spark_jvm
from tests.support.project import Project
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.slow]

STATE = ".cqrs/state"
ONCE = ("run", "bank_account", "--once", "--master", "local[2]")

#: Hit counts at which the failpoints kill. Each of two tasks has one partition with at least two batches. The first
#: transaction commits the claim, and the first change of the shard is made by recovery.
HIT_COUNTS = {
    **dict.fromkeys(("decide.before", "decide.after", "produce.first", "produce.after"), 2),
    **dict.fromkeys(("offsets.after", "flush.after", "commit.sent", "commit.after"), 3),
    **dict.fromkeys(("apply.before", "apply.inside", "apply.after"), 2),
}
VICTIMS = ("worker", "executor", "driver")

#: The failpoints of every test run: half a transaction. `test_smoke` and the soak kill a driver.
SAMPLE = {("produce.first", "executor")}
MATRIX = [
    pytest.param(point, victim, marks=[] if (point, victim) in SAMPLE else pytest.mark.nightly)
    for point in ALWAYS_PASSED
    for victim in VICTIMS
]


Verdict = tuple[str, object, int]  # status, reason (if any), version


class Reference(NamedTuple):
    """The result of the same commands in an undisturbed run."""

    digest: str
    outcomes: list[list[Verdict]]


@pytest.fixture(scope="module")
def reference(connection: Connection, tmp_path_factory: pytest.TempPathFactory) -> Reference:
    folder = tmp_path_factory.mktemp("undisturbed")
    bank = TopicHarness(connection, f"{uuid.uuid4().hex}.", folder, "bank_account", partitions=2)
    send_all(bank)
    run_plan(bank.plan(machine=STATE))
    bank.check(STATE)
    return Reference(bank.digest(STATE), verdicts(bank))


@pytest.fixture
def project_bank(project: Project) -> TopicHarness:
    """The project's accounts, read and written without `cqrs`."""
    return project.harness()


def send_all(bank: TopicHarness) -> None:
    """Send 12,000 commands. The first 200 are decided, so that the next owner must recover."""
    commands = list(mixed_commands(12_000, accounts=200))
    bank.send(*commands[:200])
    run_plan(bank.plan(machine=STATE))
    bank.send(*commands[200:])


def verdicts(bank: TopicHarness) -> list[list[Verdict]]:
    """Return status, reason and version of each outcome, by partition."""
    outcomes = [[outcome.data for outcome in bank.outcomes(partition)] for partition in range(2)]
    return [
        [(data.status, data.reason, data.version) for data in partition_outcomes]
        for partition_outcomes in outcomes
    ]


def kill_at_failpoint(project: Project, failpoint: str, victim: str) -> None:
    """Run until an owner reaches `failpoint`, then kill the victim. Afterwards no process of the run is alive."""
    reached = project.folder / "reached"
    fault = f"{failpoint}:{'kill' if victim == 'worker' else 'wait'}@{reached}"
    with project.running(*ONCE, **{VARIABLE: fault}) as run:
        eventually(lambda: reached.exists() or run.poll() is not None, within=120)
        pids = process_tree(run.pid)
        if victim != "worker":
            os.kill(run.pid if victim == "driver" else spark_jvm(pids), signal.SIGKILL)
        _, output = run.communicate(timeout=120)
    assert reached.exists(), output
    assert run.returncode == {"worker": 0, "executor": 1, "driver": -signal.SIGKILL}[victim], output
    assert (
        victim == "driver"
        or {"worker": "a task was lost", "executor": "Spark's JVM exited"}[victim] in output
    )
    eventually(lambda: not living_processes(pids))


def check(project: Project, bank: TopicHarness, reference: Reference) -> None:
    """Check that the outcomes equal the reference, and that every digest equals the undisturbed run's."""
    bank.check(STATE)
    assert verdicts(bank) == reference.outcomes
    status = project.json("status", "bank_account", "--digest")
    assert (status["lag"], status["aggregates"]["bank_account"]["digest"]) == (0, reference.digest)
    assert as_hex(project.replay("bank_account").digest) == reference.digest
    assert bank.violations(STATE) == []


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize(("point", "victim"), MATRIX)
def test_the_next_run_repairs_any_kill(
    project: Project, project_bank: TopicHarness, reference: Reference, point: str, victim: str
) -> None:
    """The worker, executor or driver dies at a failpoint: a sample here, all failpoints in `make nightly`."""
    send_all(project_bank)
    kill_at_failpoint(project, f"{point}:{HIT_COUNTS.get(point, 1)}", victim)
    project.recover(project_bank, "--master", "local[2]")
    check(project, project_bank, reference)


@pytest.mark.nightly
def test_worker_paused_past_timeout_continues(
    project: Project, project_bank: TopicHarness, reference: Reference
) -> None:
    send_all(project_bank)
    reached = project.folder / "reached"
    with project.running(*ONCE, **{VARIABLE: f"flush.after:3:stop@{reached}"}) as run:
        eventually(reached.exists, within=120)
        eventually(
            lambda: "CompleteAbort" in {project_bank.transaction_state(number) for number in range(2)},
            within=120,
        )
        os.kill(int(reached.read_text()), signal.SIGCONT)
        _, output = run.communicate(timeout=120)
    assert run.returncode == 0 and "lost" not in output, output
    check(project, project_bank, reference)
