"""A process manager follows a repartitioning: it gets each event once, and no event from before its start."""

from collections import Counter
from collections.abc import Iterator

import pytest

from cqrs_cli import failpoints
from cqrs_cli.core.messages.repartitioning import Grow, LineageRecord, Split, lineage_value
from cqrs_cli.errors import UnavailableError
from cqrs_cli.following.processes.topics import events_topic_identity
from cqrs_cli.kafka import clients, readers
from cqrs_cli.kafka.admin.repartitioning import add_partitions, create_lineage_topic
from cqrs_cli.kafka.admin.topics import Admin
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.event_tail import require_all_partitions
from cqrs_cli.kafka.topics.topics import Topics
from tests.following.processes.process_harness import (
    RunningProcess,
    Stage,
    errors,
    orders,
    run_in_this_process,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


class GrowingStage(Stage):
    """Orders on one partition, and later on two."""

    def note(self, growth: LineageRecord) -> None:
        producer = clients.producer(self.connection)
        producer.produce(Topics("order", self.prefix).lineage, lineage_value(growth))
        assert producer.flush(30) == 0

    def grow(self) -> None:
        """Add a partition. The parent has not split yet."""
        topics = Topics("order", self.prefix)
        with Admin(self.connection) as admin:
            create_lineage_topic(admin, topics)
            self.note(Grow(1, 2))
            add_partitions(admin, topics, 2)

    def split(self, events: int) -> None:
        self.note(Split(0, 1, 2, 0, events, 0, 0, 0))


@pytest.fixture
def stage(connection: Connection, prefix: str) -> Iterator[GrowingStage]:
    yield GrowingStage(connection, prefix)


def end(stage: Stage) -> int:
    position = stage.position()
    assert position is not None
    return position.offset


def test_process_goes_on_over_a_growth(stage: GrowingStage) -> None:
    """The process manager has processed 0 up to the split, so it processes 1 from the first event on."""
    stage.place(0, 5)
    stage.react(beginning=True)
    stage.grow()
    stage.split(end(stage))
    stage.place(0, 4, partition=1)
    stage.react()
    assert stage.asked() == orders(0, 5) + orders(0, 4, 1)
    stage.react()
    assert stage.asked() == orders(0, 5) + orders(0, 4, 1)


def test_child_waits_for_its_parent(stage: GrowingStage) -> None:
    """Until 0 splits, 1 has no position. The active run notices the split."""
    stage.react(beginning=True)
    stage.grow()
    running = RunningProcess(stage.plan(once=False))
    stage.place(0, 5)
    eventually(lambda: stage.asked() == orders(0, 5))
    assert stage.position(1) is None
    stage.split(end(stage))
    stage.place(0, 4, partition=1)
    eventually(lambda: stage.asked() == orders(0, 5) + orders(0, 4, 1))
    running.end()
    assert errors(running.results) == []


def test_new_process_hears_the_parent_first(stage: GrowingStage) -> None:
    """The process manager starts at the beginning after the split. Both partitions have events of the aggregate."""
    stage.place(0, 5)
    stage.grow()
    stage.split(readers.bounds(stage.connection, stage.events, [0])[0][1])
    stage.place(0, 4, partition=1)
    seen: list[object] = []
    with failpoints.call_at("claim.after", lambda: seen.append(stage.position(1))):
        stage.react(beginning=True)
    assert seen == [None]
    asked = [one["subject"] for one in stage.commands() if one["type"] == "payment.Request"]
    assert Counter(asked[:5]) == orders(0, 5) and Counter(asked[5:]) == orders(0, 4, 1)


def test_new_process_hears_nothing_of_the_past(stage: GrowingStage) -> None:
    """The process manager starts after the split, at the end of all partitions."""
    stage.place(0, 5)
    stage.grow()
    stage.split(0)
    stage.place(0, 4, partition=1)
    stage.react()
    assert stage.asked() == Counter()
    stage.place(10, 3, partition=1)
    stage.react()
    assert stage.asked() == orders(10, 3, 1)


def test_process_of_before_hears_all_behind(stage: GrowingStage) -> None:
    stage.place(0, 5)
    stage.grow()
    stage.react()
    stage.split(end(stage))
    stage.place(0, 4, partition=1)
    stage.react()
    assert stage.asked() == orders(0, 4, 1)


def test_hidden_split_keeps_nobody_from_planning(stage: GrowingStage) -> None:
    """The planned run may be needed to end the transaction that hides the split."""
    stage.grow()
    writer = clients.producer(stage.connection, transactional_id=stage.prefix)
    writer.init_transactions(10)
    writer.begin_transaction()
    writer.produce(Topics("order", stage.prefix).lineage, lineage_value(Split(0, 1, 2, 0, 0, 0, 0, 0)))
    assert writer.flush(10) == 0
    assert stage.plan().events[stage.events].is_target_partition(1)
    writer.abort_transaction(10)


def test_process_alone_ends_at_growth(stage: GrowingStage) -> None:
    plan = stage.plan(once=False)
    stage.grow()
    sizes = events_topic_identity(plan, plan.subscriptions).check_ids()
    with pytest.raises(UnavailableError, match="has 2 partitions now, 1 of them are read"):
        require_all_partitions(sizes, [one.source for one in plan.subscriptions])
    assert errors(run_in_this_process(stage.plan())) == []
