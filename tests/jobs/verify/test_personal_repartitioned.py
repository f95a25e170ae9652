"""Verifying repartitioned customers: keys stay in their partition, and are verified with the moved aggregates."""

from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.jobs.verify.driver import checkpoint_scope, verify_in_process
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.scans.erased.verify import verify_erasure
from cqrs_cli.scans.verify.checkpoints import new_checkpoint
from cqrs_cli.scans.verify.plan import plan_verify
from tests.deciding.customers import customer_topics, erase_command, register_command
from tests.jobs.verify.customers import put_key
from tests.support.commands import FAR_FUTURE, command
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan
from tests.support.repartitioning import repartition_topics, with_stale_partition

pytestmark = pytest.mark.kafka

NAMES = [f"c-{number}" for number in range(8)]


def incremental_violations(customers: TopicHarness) -> list[str]:
    """Run `verify --incremental`, which continues from the previous call. Return its violations."""
    plan = plan_verify(customers.connection, customers.topics, customers.settings)
    with new_checkpoint(customers.folder / "proved", checkpoint_scope(plan)) as checkpoints:
        return [
            str(violation)
            for violation in verify_in_process(replace(plan, checkpoints=checkpoints)).violations
        ]


@pytest.fixture
def customers(connection: Connection, prefix: str, tmp_path: Path) -> TopicHarness:
    """All customers have a key and a deferred command.

    Half are erased before the repartitioning, a quarter after it.
    """
    customers = customer_topics(connection, prefix, tmp_path)
    deferred_commands = [
        command("customer.Register", name, f"{name}.late", LATE_DATA, notbefore=FAR_FUTURE) for name in NAMES
    ]
    customers.send(*map(register_command, NAMES), *deferred_commands, *map(erase_command, NAMES[:4]))
    run_plan(customers.plan())
    assert incremental_violations(customers) == []
    repartition_topics(customers, 2)
    customers.send(
        *(with_stale_partition(register_command(name, 1), 1) for name in NAMES[:2]),
        *map(erase_command, NAMES[4:6]),
    )
    customers.send(*(command("cqrs.Release", name, f"{name}.go", {"id": f"{name}.late"}) for name in NAMES))
    run_plan(customers.plan())
    run_plan(customers.plan())
    return customers


LATE_DATA = {"name": "late-needle-77", "mail": "late-needle-77@home"}


@pytest.mark.covers("verifiable")
def test_keys_are_verified_after_repartitioning(customers: TopicHarness) -> None:
    reasons = [outcome.data.reason for number in (0, 1) for outcome in customers.outcomes(number)]
    assert reasons.count("ERASED") == 6
    assert customers.violations("state") == []
    assert incremental_violations(customers) == []
    report = verify_erasure(customers.connection, customers.topics, customers.aggregate, customers.settings)
    assert [
        *map(str, report.file_findings),
        *map(str, report.topic_search.findings),
        *report.permanent_topics,
    ] == []
    assert (report.violation_count, sorted(report.topic_search.erased)) == (0, NAMES[:6])


@pytest.mark.covers("verifiable")
def test_lost_keys_are_named_after_repartitioning(customers: TopicHarness) -> None:
    """After a repartitioning, lost keys of the target and of the parent are named once each."""
    put_key(customers, NAMES[6], None)
    put_key(customers, NAMES[7], None)
    put_key(customers, NAMES[0], None)
    violations = customers.violations()
    assert sorted(name for violation in violations for name in NAMES if f"{name!r}" in violation) == [
        NAMES[0],
        *NAMES[6:],
    ]
    assert {customers.partition_of(name) for name in NAMES} == {0, 1}
    assert len(violations) == 3
