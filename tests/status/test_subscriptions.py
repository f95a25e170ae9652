"""Snapshots of the partitions to which process managers subscribe, on the real broker."""

import pytest

from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.processes.retire import retire_processes
from cqrs_cli.following.processes.subscription_reader import SubscriptionReader
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.status.partition import PartitionStatus
from cqrs_cli.status.subscriptions import subscription_status
from tests.following.processes.process_harness import ProcessHarness, run_in_this_process
from tests.support import ROOT
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def reader_of(harness: ProcessHarness) -> SubscriptionReader:
    process = load_process(harness.name, ROOT, "aggregates")
    return SubscriptionReader(harness.connection, harness.topics, process.sources)


def statuses_by_aggregate(harness: ProcessHarness, reader: SubscriptionReader) -> dict[str, PartitionStatus]:
    """Return the statuses by aggregate."""
    statuses = [
        subscription_status(state, harness.topics, harness.settings.state_dir)
        for state in reader.read_states()
    ]
    return {state.aggregate: state for state in statuses}


def test_status_follows_the_position(connection: Connection, prefix: str) -> None:
    """The reader first keeps its connections, and then opens new connections."""
    harness = ProcessHarness(connection, prefix)
    reader = reader_of(harness)
    harness.place_orders(0, 3)
    initial = statuses_by_aggregate(harness, reader)
    assert {(status.name, status.owner, status.position, status.lag) for status in initial.values()} == {
        ("checkout", None, None, 0)
    }
    plan = harness.plan()
    run_in_this_process(plan)
    harness.place_orders(3, 2)
    status = statuses_by_aggregate(harness, reader)["order"]
    assert status.owner is not None and (status.owner.run, status.is_owned) == (plan.run, True) and status.lag
    retire_processes(plan)
    last = eventually(
        lambda: (
            status if (status := statuses_by_aggregate(harness, reader)["order"]).is_owned is False else None
        )
    )
    reader.close()
    assert last is not None and statuses_by_aggregate(harness, reader)["order"].owner == last.owner
