"""Events were deleted: each reader of events from the beginning stops, and none answers as if they never existed."""

from collections.abc import Callable
from typing import Any

import pytest

from cqrs_cli.client.aggregate_logs import find_ranges
from cqrs_cli.client.compose import compose
from cqrs_cli.client.envelope import Attributes
from cqrs_cli.client.queries.simulation import Simulation
from cqrs_cli.doctor.events import check_events
from cqrs_cli.errors import ContradictionError
from cqrs_cli.following.plan import EventsTopic
from cqrs_cli.following.projections.plan import ProjectionPlan
from cqrs_cli.following.projections.prepare import log_starts
from cqrs_cli.jobs.check import plan_reading
from cqrs_cli.jobs.export.driver import plan_export
from cqrs_cli.jobs.replay.driver import plan_replay
from cqrs_cli.jobs.whatif import decide_partition_again
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.keyspace.key_space import KeySpace
from cqrs_cli.ownership.complete_events import complete_bounds
from cqrs_cli.scans.whatif.plan import plan_whatif
from cqrs_cli.spark.log_extent import ExtentReader, check_first_events
from cqrs_cli.spark.options import parse_options
from cqrs_cli.spark.plan import SourcePlan
from tests.support import ROOT
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan_for_error
from tests.support.topic_loss import delete_records_before

pytestmark = pytest.mark.kafka

Read = Callable[[TopicHarness], object]


@pytest.fixture
def shortened_counters(decided_counters: TopicHarness) -> TopicHarness:
    """Five events, of which retention has deleted the first three."""
    delete_records_before(decided_counters, "events", 3)
    return decided_counters


def show(harness: TopicHarness) -> object:
    return find_ranges(harness.connection, harness.topics, b"a", "murmur2")


def simulate(harness: TopicHarness) -> object:
    decision_settings = DecisionSettings("murmur2", 1000, 20)
    command = compose(harness.aggregate, "a", "Increment", [], Attributes())
    return Simulation(harness.connection, harness.topics, harness.aggregate, decision_settings, [command])


def replay(harness: TopicHarness) -> object:
    return plan_replay(harness.connection, harness.topics, "aggregates", ROOT)


def export(harness: TopicHarness) -> object:
    return plan_export(harness.connection, harness.topics, "aggregates", ROOT)


def check_log(harness: TopicHarness) -> object:
    return plan_reading(harness.connection, harness.topics, "aggregates", ROOT)


def decide_again(harness: TopicHarness) -> object:
    settings = harness.settings
    plan = plan_whatif(harness.connection, harness.topics, settings, "aggregates.counter")
    if (error := decide_partition_again(plan, 0).error) is not None:
        raise error
    return None


def project(harness: TopicHarness) -> object:
    topic = harness.topics.events
    source = EventPartition("counter", topic, 0)
    events = {topic: EventsTopic("", 1, KeySpace.fixed(1, "murmur2"))}
    database: Any = None  # no database is opened
    plan = ProjectionPlan(
        harness.connection, "aggregates", ROOT, "murmur2", events, "p", [source], database, "me"
    )
    return log_starts(plan)


def read_dataframe(harness: TopicHarness) -> None:
    topic = harness.topics.events
    plan = SourcePlan(harness.connection, topic, "events", "counter", None, "aggregates")
    with ExtentReader(harness.connection, topic) as reader:
        check_first_events(plan, parse_options({"aggregate": "counter"}), reader.read_extent())


def diagnose(harness: TopicHarness) -> object:
    for check in check_events(harness.connection, harness.aggregate, harness.topics):
        if check.exit_code:
            raise ContradictionError(check.detail, check.hint)
    return None


READERS: list[Read] = [
    show,
    simulate,
    replay,
    export,
    check_log,
    decide_again,
    project,
    read_dataframe,
    diagnose,
]


@pytest.mark.covers("nothing-skipped")
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_readers_stop_at_deleted_events(shortened_counters: TopicHarness, read: Read) -> None:
    with pytest.raises(ContradictionError, match="begins at 3: the events from offset 0 on were deleted"):
        read(shortened_counters)


@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_readers_read_a_complete_log(decided_counters: TopicHarness, read: Read) -> None:
    read(decided_counters)


@pytest.mark.covers("nothing-skipped")
def test_accepted_loss_stops_no_reader(shortened_counters: TopicHarness) -> None:
    run_plan_for_error(shortened_counters.plan(machine="another", accept_loss=["counter:0@5"]))
    bounds = complete_bounds(shortened_counters.connection, shortened_counters.topics, [0])
    assert bounds[0][0] == 3
