"""Losses that an owner does not repair by itself: it stops, names the option that accepts the loss, and obeys it."""

from dataclasses import replace

import pytest

from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UnavailableError
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.topics.topics import KINDS
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
def decided(decided: TopicHarness) -> TopicHarness:
    """Five decided commands and five more, not decided."""
    decided.send(*increment_commands(5, first=5))
    return decided


def way_out(error: CqrsError | None) -> str:
    """Return the argument of `--accept-loss` in the hint of an inconsistency."""
    assert isinstance(error, ContradictionError) and error.exit_code == 5
    assert "cqrs run --accept-loss " in error.hint
    return error.hint.rpartition(" ")[2]


@pytest.mark.covers("nothing-skipped")
def test_lost_group_offsets_do_not_matter(decided: TopicHarness) -> None:
    delete_group(decided)
    run_plan(decided.plan())
    decided.check()


@pytest.mark.covers("nothing-skipped")
@pytest.mark.parametrize("offset", [3, 8, 10])
def test_moved_offset_stops_it_until_accepted(decided: TopicHarness, offset: int) -> None:
    set_group_offset(decided, offset)
    place = way_out(run_plan_for_error(decided.plan()))
    assert way_out(run_plan_for_error(decided.plan())) == place == "counter:0@5"
    assert decided.decided_offsets() == [0, 1, 2, 3, 4]
    run_plan(decided.plan(accept_loss=[place]))
    decided.check()


@pytest.mark.parametrize("metadata", [b"\xff\xfe", b"x", b"{}", b"[" * 5000])
def test_foreign_metadata_is_not_a_claim(decided: TopicHarness, metadata: bytes) -> None:
    with raw_client(decided.connection) as requests:
        requests.commit(decided.topics.group, decided.topics.commands, 0, 3, metadata[:4096])
    assert way_out(run_plan_for_error(decided.plan())) == "counter:0@5"
    with raw_client(decided.connection) as requests:
        requests.commit(decided.topics.group, decided.topics.commands, 0, 5, metadata[:4096])
    run_plan(decided.plan())
    decided.check()


@pytest.mark.covers("nothing-skipped")
def test_offset_beyond_the_end_stops_it(decided: TopicHarness) -> None:
    set_group_offset(decided, 99)
    assert "offset 99 is committed but the log ends at 10" in str(run_plan_for_error(decided.plan()))


def test_an_accepted_skip_counts_once(decided: TopicHarness) -> None:
    set_group_offset(decided, 8)
    run_plan(decided.plan(accept_loss=["counter:0@8"]))
    assert decided.decided_offsets() == [0, 1, 2, 3, 4, 8, 9]
    run_plan(decided.plan(accept_loss=["counter:0@8"]))
    assert decided.decided_offsets() == [0, 1, 2, 3, 4, 8, 9]


def test_accepting_a_deleted_place_is_refused(decided: TopicHarness) -> None:
    plan = decided.plan(accept_loss=["counter:0@6"])
    delete_records_before(decided, "commands", 7)
    error = run_plan_for_error(plan)
    assert error and error.exit_code == 2 and "7 to 10" in error.hint


def test_accepting_an_earlier_place_changes_nothing(decided: TopicHarness) -> None:
    run_plan(decided.plan(accept_loss=["counter:0@3"]))
    decided.check()
    delete_group(decided)
    run_plan(decided.plan(accept_loss=["counter:0@3"]))
    decided.check()


@pytest.mark.covers("one-outcome")
def test_lost_offset_never_revives_an_acceptance(decided: TopicHarness) -> None:
    set_group_offset(decided, 8)
    plan = decided.plan(once=False, accept_loss=["counter:0@8"])
    with running_owners(plan):
        eventually(lambda: len(decided.decided_offsets()) == 7)
        delete_group(decided)
        eventually(lambda: decided.position_and_claim()[0] == 10)
        decided.send(*increment_commands(1, first=10))
        eventually(lambda: len(decided.decided_offsets()) == 8)
    assert decided.decided_offsets() == [0, 1, 2, 3, 4, 8, 9, 10]


@pytest.mark.covers("nothing-skipped")
def test_deleted_undecided_commands_stop_it(decided: TopicHarness) -> None:
    delete_records_before(decided, "commands", 7)
    place = way_out(run_plan_for_error(decided.plan()))
    assert place == "counter:0@7"
    run_plan(decided.plan(accept_loss=[place]))
    assert decided.decided_offsets() == [0, 1, 2, 3, 4, 7, 8, 9]


def test_deleted_decided_commands_do_not_matter(decided: TopicHarness) -> None:
    delete_records_before(decided, "commands", 5)
    run_plan(decided.plan())
    assert decided.decided_offsets() == list(range(10))


@pytest.mark.covers("nothing-skipped")
def test_remade_commands_stop_it_until_accepted(decided: TopicHarness) -> None:
    recreate_topics(decided, "commands")
    decided.send(*increment_commands(2, first=10))
    place = way_out(run_plan_for_error(decided.plan()))
    run_plan(decided.plan(accept_loss=["counter:0@0"]))
    assert place.startswith("counter:0@")
    assert decided.decided_offsets() == [0, 1, 2, 3, 4, 0, 1]
    run_plan(decided.plan())
    assert len(decided.decided_offsets()) == 7


@pytest.mark.covers("nothing-skipped")
def test_lost_outcomes_stop_it_until_accepted(decided: TopicHarness) -> None:
    recreate_topics(decided, "outcomes")
    error = run_plan_for_error(decided.plan())
    assert "the topic of its outcomes was deleted and created again" in str(error)
    assert way_out(error) == "counter:0@5"
    delete_group(decided)
    assert "events but no outcome" in str(run_plan_for_error(decided.plan()))
    run_plan(decided.plan(accept_loss=["counter:0@5"]))
    assert decided.decided_offsets() == [5, 6, 7, 8, 9]


@pytest.mark.covers("nothing-skipped")
def test_lost_events_stop_it_until_accepted(decided: TopicHarness) -> None:
    recreate_topics(decided, "events")
    error = run_plan_for_error(decided.plan())
    assert "the topic of its events was deleted and created again" in str(error)
    assert way_out(error) == "counter:0@5"
    delete_group(decided)
    error = run_plan_for_error(decided.plan())
    assert "leaves 'a' at version 0, but command 4 left it at version 5: events were lost" in str(error)
    assert way_out(error) == "counter:0@5"
    assert decided.decided_offsets() == [0, 1, 2, 3, 4]
    run_plan(decided.plan(accept_loss=["counter:0@5"]))
    run_plan(decided.plan(machine="another"))
    assert [outcome.data.version for outcome in decided.outcomes()] == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]


@pytest.mark.covers("nothing-skipped")
def test_a_grown_topic_is_refused(decided: TopicHarness) -> None:
    """A run refuses topics to which partitions were added by hand, before it fences or at its claim."""
    plan = decided.plan(once=False)
    add_partitions(decided, *KINDS, partitions=2)
    with pytest.raises(ConfigurationError, match="had 1 partitions and now has 2"):
        decided.plan(once=False)
    repartitioned = {name: replace(topic, partitions=2) for name, topic in plan.topics.items()}
    error = run_plan_for_error(replace(plan, topics=repartitioned))
    assert isinstance(error, ConfigurationError) and error.exit_code == 3
    assert "had 1 partitions and now has 2" in error.message


@pytest.mark.covers("nothing-skipped")
def test_a_foreign_open_transaction_stops_it(decided: TopicHarness) -> None:
    foreign = producer(decided.connection, transactional_id=f"{decided.topics.prefix}foreign")
    foreign.init_transactions(10)
    foreign.begin_transaction()
    foreign.produce(decided.topics.outcomes, b"?", partition=0)
    assert foreign.flush(10) == 0
    with short_read_timeout():
        error = run_plan_for_error(decided.plan())
    assert isinstance(error, UnavailableError) and error.exit_code == 4
    assert f"open transaction {decided.topics.prefix}foreign" in error.message
    assert "kafka-transactions.sh" in error.hint
    assert decided.stable_end("outcomes") == 6  # five outcomes and a marker
    foreign.abort_transaction(10)
    await_marker(decided.connection, decided.topics.outcomes)
    run_plan(decided.plan())
    decided.check()
