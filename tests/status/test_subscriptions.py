"""Snapshots of the partitions to which process managers subscribe, on the real broker."""

import pytest

from cqrs_cli.following.processes.load import load_process
from cqrs_cli.following.processes.retire import retire_processes
from cqrs_cli.following.processes.subscription_reader import SubscriptionReader
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.status.partition import PartitionStatus
from cqrs_cli.status.subscriptions import subscription_status
from tests.following.processes.process_harness import Stage, run_in_this_process
from tests.support import ROOT
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def reader_of(stage: Stage) -> SubscriptionReader:
    loaded = load_process(stage.name, ROOT, "aggregates")
    return SubscriptionReader(stage.connection, stage.topics, loaded.sources)


def places(stage: Stage, reader: SubscriptionReader) -> dict[str, PartitionStatus]:
    """Return the statuses by aggregate."""
    found = [subscription_status(one, stage.topics, stage.settings.state_dir) for one in reader.read_states()]
    return {one.aggregate: one for one in found}


def test_looks_follow_the_position(connection: Connection, prefix: str) -> None:
    """The reader first keeps its connections, and then opens new connections."""
    stage = Stage(connection, prefix)
    reader = reader_of(stage)
    stage.place(0, 3)
    new = places(stage, reader)
    assert {(one.name, one.owner, one.position, one.lag) for one in new.values()} == {
        ("checkout", None, None, 0)
    }
    plan = stage.plan()
    run_in_this_process(plan)
    stage.place(3, 2)
    seen = places(stage, reader)["order"]
    assert seen.owner is not None and (seen.owner.run, seen.owned) == (plan.run, True) and seen.lag
    retire_processes(plan)
    ended = eventually(lambda: one if (one := places(stage, reader)["order"]).owned is False else None)
    reader.close()
    assert ended is not None and places(stage, reader)["order"].owner == ended.owner
