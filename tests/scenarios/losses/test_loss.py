"""Losses that an owner does not repair: it stops with an error that names `--accept-loss`, and obeys that option."""

from dataclasses import replace

import pytest

from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UnavailableError
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.topics.topics import KINDS
from cqrs_cli.keyspace.planned_key_space import PlannedKeySpace
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_for_error, running_owners
from tests.support.raw_requests import raw_client
from tests.support.short_timeouts import short_read_timeout
from tests.support.topic_loss import (
    add_partitions,
    delete_group,
    delete_records_before,
    recreate_topics,
    set_group_offset,
)
from tests.support.transactional_topic import await_marker
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def half_decided(decided_counters: TopicHarness) -> TopicHarness:
    """Five decided commands and five undecided commands."""
    decided_counters.send(*increment_commands(5, first=5))
    return decided_counters


def accept_loss_argument(error: CqrsError | None) -> str:
    """Return the argument of `--accept-loss` in the hint of an inconsistency."""
    assert isinstance(error, ContradictionError) and error.exit_code == 5
    assert "cqrs run --accept-loss " in error.hint
    return error.hint.rpartition(" ")[2]


@pytest.mark.covers("nothing-skipped")
def test_lost_group_offsets_do_not_matter(half_decided: TopicHarness) -> None:
    delete_group(half_decided)
    run_plan(half_decided.plan())
    half_decided.check()


@pytest.mark.covers("nothing-skipped")
@pytest.mark.parametrize("offset", [3, 8, 10])
def test_moved_offset_stops_owner_until_accepted(half_decided: TopicHarness, offset: int) -> None:
    set_group_offset(half_decided, offset)
    argument = accept_loss_argument(run_plan_for_error(half_decided.plan()))
    assert accept_loss_argument(run_plan_for_error(half_decided.plan())) == argument == "counter:0@5"
    assert half_decided.decided_offsets() == [0, 1, 2, 3, 4]
    run_plan(half_decided.plan(accept_loss=[argument]))
    half_decided.check()


@pytest.mark.parametrize("metadata", [b"\xff\xfe", b"x", b"{}", b"[" * 5000])
def test_foreign_metadata_is_not_a_claim(half_decided: TopicHarness, metadata: bytes) -> None:
    with raw_client(half_decided.connection) as client:
        client.commit(half_decided.topics.group, half_decided.topics.commands, 0, 3, metadata[:4096])
    assert accept_loss_argument(run_plan_for_error(half_decided.plan())) == "counter:0@5"
    with raw_client(half_decided.connection) as client:
        client.commit(half_decided.topics.group, half_decided.topics.commands, 0, 5, metadata[:4096])
    run_plan(half_decided.plan())
    half_decided.check()


@pytest.mark.covers("nothing-skipped")
def test_offset_beyond_the_end_stops_owner(half_decided: TopicHarness) -> None:
    set_group_offset(half_decided, 99)
    assert "offset 99 is committed but the log ends at 10" in str(run_plan_for_error(half_decided.plan()))


def test_an_accepted_skip_counts_once(half_decided: TopicHarness) -> None:
    set_group_offset(half_decided, 8)
    run_plan(half_decided.plan(accept_loss=["counter:0@8"]))
    assert half_decided.decided_offsets() == [0, 1, 2, 3, 4, 8, 9]
    run_plan(half_decided.plan(accept_loss=["counter:0@8"]))
    assert half_decided.decided_offsets() == [0, 1, 2, 3, 4, 8, 9]


def test_accepting_a_deleted_offset_is_refused(half_decided: TopicHarness) -> None:
    plan = half_decided.plan(accept_loss=["counter:0@6"])
    delete_records_before(half_decided, "commands", 7)
    error = run_plan_for_error(plan)
    assert error and error.exit_code == 2 and "7 to 10" in error.hint


def test_accepting_an_earlier_offset_changes_nothing(half_decided: TopicHarness) -> None:
    run_plan(half_decided.plan(accept_loss=["counter:0@3"]))
    half_decided.check()
    delete_group(half_decided)
    run_plan(half_decided.plan(accept_loss=["counter:0@3"]))
    half_decided.check()


@pytest.mark.covers("one-outcome")
def test_lost_offset_never_revives_an_acceptance(half_decided: TopicHarness) -> None:
    set_group_offset(half_decided, 8)
    plan = half_decided.plan(once=False, accept_loss=["counter:0@8"])
    with running_owners(plan):
        eventually(lambda: len(half_decided.decided_offsets()) == 7)
        delete_group(half_decided)
        eventually(lambda: half_decided.position_and_claim()[0] == 10)
        half_decided.send(*increment_commands(1, first=10))
        eventually(lambda: len(half_decided.decided_offsets()) == 8)
    assert half_decided.decided_offsets() == [0, 1, 2, 3, 4, 8, 9, 10]


@pytest.mark.covers("nothing-skipped")
def test_deleted_undecided_commands_stop_owner(half_decided: TopicHarness) -> None:
    delete_records_before(half_decided, "commands", 7)
    argument = accept_loss_argument(run_plan_for_error(half_decided.plan()))
    assert argument == "counter:0@7"
    run_plan(half_decided.plan(accept_loss=[argument]))
    assert half_decided.decided_offsets() == [0, 1, 2, 3, 4, 7, 8, 9]


def test_deleted_decided_commands_do_not_matter(half_decided: TopicHarness) -> None:
    delete_records_before(half_decided, "commands", 5)
    run_plan(half_decided.plan())
    assert half_decided.decided_offsets() == list(range(10))


@pytest.mark.covers("nothing-skipped")
def test_recreated_commands_stop_owner_until_accepted(half_decided: TopicHarness) -> None:
    recreate_topics(half_decided, "commands")
    half_decided.send(*increment_commands(2, first=10))
    argument = accept_loss_argument(run_plan_for_error(half_decided.plan()))
    run_plan(half_decided.plan(accept_loss=["counter:0@0"]))
    assert argument.startswith("counter:0@")
    assert half_decided.decided_offsets() == [0, 1, 2, 3, 4, 0, 1]
    run_plan(half_decided.plan())
    assert len(half_decided.decided_offsets()) == 7


@pytest.mark.covers("nothing-skipped")
def test_lost_outcomes_stop_owner_until_accepted(half_decided: TopicHarness) -> None:
    recreate_topics(half_decided, "outcomes")
    error = run_plan_for_error(half_decided.plan())
    assert "the topic of its outcomes was deleted and created again" in str(error)
    assert accept_loss_argument(error) == "counter:0@5"
    delete_group(half_decided)
    assert "events but no outcome" in str(run_plan_for_error(half_decided.plan()))
    run_plan(half_decided.plan(accept_loss=["counter:0@5"]))
    assert half_decided.decided_offsets() == [5, 6, 7, 8, 9]


@pytest.mark.covers("nothing-skipped")
def test_lost_events_stop_owner_until_accepted(half_decided: TopicHarness) -> None:
    recreate_topics(half_decided, "events")
    error = run_plan_for_error(half_decided.plan())
    assert "the topic of its events was deleted and created again" in str(error)
    assert accept_loss_argument(error) == "counter:0@5"
    delete_group(half_decided)
    error = run_plan_for_error(half_decided.plan())
    assert "leaves 'a' at version 0, but command 4 left it at version 5: events were lost" in str(error)
    assert accept_loss_argument(error) == "counter:0@5"
    assert half_decided.decided_offsets() == [0, 1, 2, 3, 4]
    run_plan(half_decided.plan(accept_loss=["counter:0@5"]))
    run_plan(half_decided.plan(machine="another"))
    assert [outcome.data.version for outcome in half_decided.outcomes()] == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]


@pytest.mark.covers("nothing-skipped")
def test_topic_with_added_partitions_is_refused(half_decided: TopicHarness) -> None:
    """A run refuses topics to which partitions were added by hand, before it fences or at its claim."""
    plan = half_decided.plan(once=False)
    add_partitions(half_decided, *KINDS, partitions=2)
    with pytest.raises(ConfigurationError, match="had 1 partitions and now has 2"):
        half_decided.plan(once=False)
    topics = {name: replace(topic, partitions=2) for name, topic in plan.topics.items()}
    key_spaces = {
        name: PlannedKeySpace.fixed(key_space.topics, key_space.partitioner, 2)
        for name, key_space in plan.key_spaces.items()
    }
    error = run_plan_for_error(replace(plan, topics=topics, key_spaces=key_spaces))
    assert isinstance(error, ConfigurationError) and error.exit_code == 3
    assert "had 1 partitions and now has 2" in error.message


@pytest.mark.covers("nothing-skipped")
def test_foreign_open_transaction_stops_the_owner(half_decided: TopicHarness) -> None:
    foreign_producer = producer(
        half_decided.connection, transactional_id=f"{half_decided.topics.prefix}foreign"
    )
    foreign_producer.init_transactions(10)
    foreign_producer.begin_transaction()
    foreign_producer.produce(half_decided.topics.outcomes, b"?", partition=0)
    assert foreign_producer.flush(10) == 0
    with short_read_timeout():
        error = run_plan_for_error(half_decided.plan())
    assert isinstance(error, UnavailableError) and error.exit_code == 4
    assert f"open transaction {half_decided.topics.prefix}foreign" in error.message
    assert "kafka-transactions.sh" in error.hint
    assert half_decided.stable_end("outcomes") == 6  # five outcomes and a marker
    foreign_producer.abort_transaction(10)
    await_marker(half_decided.connection, half_decided.topics.outcomes)
    run_plan(half_decided.plan())
    half_decided.check()
