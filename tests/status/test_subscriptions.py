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
    loaded = load_process(harness.name, ROOT, "aggregates")
    return SubscriptionReader(harness.connection, harness.topics, loaded.sources)


def places(harness: ProcessHarness, reader: SubscriptionReader) -> dict[str, PartitionStatus]:
    """Return the statuses by aggregate."""
    found = [
        subscription_status(one, harness.topics, harness.settings.state_dir) for one in reader.read_states()
    ]
    return {one.aggregate: one for one in found}


def test_looks_follow_the_position(connection: Connection, prefix: str) -> None:
    """The reader first keeps its connections, and then opens new connections."""
    harness = ProcessHarness(connection, prefix)
    reader = reader_of(harness)
    harness.place_orders(0, 3)
    new = places(harness, reader)
    assert {(one.name, one.owner, one.position, one.lag) for one in new.values()} == {
        ("checkout", None, None, 0)
    }
    plan = harness.plan()
    run_in_this_process(plan)
    harness.place_orders(3, 2)
    seen = places(harness, reader)["order"]
    assert seen.owner is not None and (seen.owner.run, seen.owned) == (plan.run, True) and seen.lag
    retire_processes(plan)
    ended = eventually(lambda: one if (one := places(harness, reader)["order"]).owned is False else None)
    reader.close()
    assert ended is not None and places(harness, reader)["order"].owner == ended.owner
