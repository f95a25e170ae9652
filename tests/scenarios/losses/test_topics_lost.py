"""Topics, records and offsets vanish, also under an active owner: it stops or continues, and never skips a command."""

import signal
from functools import partial

import pytest

from cqrs_cli import failpoints
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.readers import MissingPartitionError
from cqrs_cli.kafka.topics.topics import KINDS, Kind
from cqrs_cli.ownership.timing import Timing
from tests.support.commands import CommandRecord, command, increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import OwnerProcess, run_plan, run_plan_for_error, running_owners
from tests.support.topic_loss import delete_group, delete_kinds, delete_records_before, recreate_topics
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.mark.covers("nothing-skipped")
@pytest.mark.parametrize("count", [3, 5, 20])
def test_recreated_commands_always_stop_the_owner(decided_counters: TopicHarness, count: int) -> None:
    recreate_topics(decided_counters, "commands")
    decided_counters.send(*increment_commands(count, first=5))
    error = run_plan_for_error(decided_counters.plan())
    assert isinstance(error, ContradictionError) and error.exit_code == 5
    assert error.hint.endswith("cqrs run --accept-loss counter:0@0") or count == 3
    assert decided_counters.decided_offsets() == [0, 1, 2, 3, 4]
    run_plan(decided_counters.plan(accept_loss=["counter:0@0"]))
    run_plan(decided_counters.plan())
    assert decided_counters.decided_offsets() == [0, 1, 2, 3, 4, *range(count)]


def test_recreated_topics_are_a_new_beginning(decided_counters: TopicHarness) -> None:
    recreate_topics(decided_counters, *KINDS)
    decided_counters.send(*increment_commands(3))
    run_plan(decided_counters.plan())
    decided_counters.check()
    assert len(list(decided_counters.shard_path().parent.glob("0.aside-*-topics-was*"))) == 1


@pytest.mark.covers("nothing-skipped")
def test_commands_recreated_during_run_stop_it(counters: TopicHarness) -> None:
    with running_owners(counters.plan(once=False)) as owner:
        counters.send(*increment_commands(5))
        eventually(lambda: len(counters.decided_offsets()) == 5)
        recreate_topics(counters, "commands")
        counters.send(*increment_commands(20, first=5))
        assert isinstance(owner.error(), ContradictionError)
    assert counters.decided_offsets() == [0, 1, 2, 3, 4]


@pytest.mark.covers("nothing-skipped")
@pytest.mark.parametrize("kind", ["events", "outcomes"])
@pytest.mark.parametrize("count", [5, 50])
def test_logs_recreated_during_run_stop_it(counters: TopicHarness, kind: Kind, count: int) -> None:
    # A delivery report is believed at once: unlike a read, it cannot be stale.
    with running_owners(counters.plan(once=False, timing=Timing(inconsistency_timeout=600.0))) as owner:
        counters.send(*increment_commands(5))
        eventually(lambda: len(counters.decided_offsets()) == 5)
        recreate_topics(counters, kind)
        counters.send(*increment_commands(count, first=5))
        assert isinstance(owner.error(), ContradictionError)
    assert counters.records(kind) == []
    assert isinstance(run_plan_for_error(counters.plan()), ContradictionError)


@pytest.mark.covers("nothing-skipped")
def test_event_without_outcome_stops_the_owner(decided_counters: TopicHarness) -> None:
    outcomes = decided_counters.records("outcomes")[:4]
    recreate_topics(decided_counters, "outcomes")
    delete_group(decided_counters)
    restoring_producer = producer(decided_counters.connection)
    for record in outcomes:
        restoring_producer.produce(
            decided_counters.topics.outcomes, record.value, record.key, 0, timestamp=record.timestamp
        )
    assert restoring_producer.flush(10) == 0
    error = run_plan_for_error(decided_counters.plan())
    assert isinstance(error, ContradictionError)
    assert "command 4 has events but no outcome" in error.message


@pytest.mark.parametrize(
    "kind", [kind if kind == "events" else pytest.param(kind, marks=pytest.mark.slow) for kind in KINDS]
)
def test_a_deleted_topic_stops_its_owner(counters: TopicHarness, kind: Kind) -> None:
    owner = OwnerProcess(counters.plan(once=False), transaction_timeout=2.0, missing_timeout=0.0)
    counters.send(*increment_commands(5))
    eventually(lambda: len(counters.decided_offsets()) == 5)
    delete_kinds(counters, kind)
    if kind != "commands":
        deferred_command = command("counter.Increment", "a", "waits", notbefore="2999-01-01T00:00:00Z")
        counters.send(*increment_commands(5, first=5), CommandRecord(b"?", b"a"), deferred_command)
    error: CqrsError | None = owner.error()
    assert isinstance(error, ConfigurationError) and error.exit_code == 3
    assert f"{counters.topics.name(kind)} partition 0 does not exist" in error.message


@pytest.mark.covers("nothing-skipped")
def test_commands_deleted_unread_stop_the_owner(decided_counters: TopicHarness) -> None:
    decided_counters.send(*increment_commands(30, first=5))
    paused_owner = OwnerProcess(decided_counters.plan(), "decide.before:1:stop", batch_limit=10)
    eventually(paused_owner.is_paused)
    delete_records_before(decided_counters, "commands", 30)
    paused_owner.signal(signal.SIGCONT)
    error = paused_owner.error()
    if error is not None:  # otherwise they were in its memory already
        assert (
            isinstance(error, ContradictionError) and "were deleted before they were decided" in error.message
        )
    assert decided_counters.decided_offsets() == list(range(len(decided_counters.decided_offsets())))


@pytest.mark.covers("nothing-skipped")
def test_forgotten_offset_is_committed_again(counters: TopicHarness) -> None:
    with running_owners(counters.plan(once=False)) as owner:
        counters.send(*increment_commands(5))
        eventually(lambda: counters.position_and_claim()[0] == 5)
        run = counters.owning_run()
        delete_group(counters)
        eventually(partial(lambda: counters.owning_run() == run))
        counters.send(*increment_commands(5, first=5))
        eventually(lambda: len(counters.decided_offsets()) == 10)
        assert not owner.has_ended()
    counters.check()


def test_topic_denied_briefly_stops_nothing(counters: TopicHarness) -> None:
    def raise_missing() -> None:
        raise MissingPartitionError("counter.commands partition 0 does not exist")

    counters.send(*increment_commands(5))
    with failpoints.call_at("decide.before", raise_missing, times=2):
        run_plan(counters.plan())
    assert counters.decided_offsets() == [0, 1, 2, 3, 4]
