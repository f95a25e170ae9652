"""Losses that an owner does not repair by itself: it stops, names the option that accepts the loss, and obeys it."""

from dataclasses import replace

import pytest

from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UnavailableError
from cqrs_cli.kafka.clients import producer
from cqrs_cli.kafka.topics.topics import KINDS
from tests.support.commands import increments
from tests.support.harness import TopicHarness
from tests.support.owners import owned, quietly, running
from tests.support.raw_requests import raw
from tests.support.short_timeouts import impatience
from tests.support.topic_loss import forget_group, grow, move_group, remake, shorten
from tests.support.transactional_topic import settled
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def decided(decided: TopicHarness) -> TopicHarness:
    """Five decided commands and five more, not decided."""
    decided.send(*increments(5, first=5))
    return decided


def way_out(error: CqrsError | None) -> str:
    """Return the argument of `--accept-loss` in the hint of an inconsistency."""
    assert isinstance(error, ContradictionError) and error.exit_code == 5
    assert "cqrs run --accept-loss " in error.hint
    return error.hint.rpartition(" ")[2]


@pytest.mark.covers("nothing-skipped")
def test_lost_group_offsets_do_not_matter(decided: TopicHarness) -> None:
    forget_group(decided)
    quietly(decided.plan())
    decided.check()


@pytest.mark.covers("nothing-skipped")
@pytest.mark.parametrize("offset", [3, 8, 10])
def test_moved_offset_stops_it_until_accepted(decided: TopicHarness, offset: int) -> None:
    move_group(decided, offset)
    place = way_out(owned(decided.plan()))
    assert way_out(owned(decided.plan())) == place == "counter:0@5"
    assert decided.decided_offsets() == [0, 1, 2, 3, 4]
    quietly(decided.plan(accept_loss=[place]))
    decided.check()


@pytest.mark.parametrize("metadata", [b"\xff\xfe", b"x", b"{}", b"[" * 5000])
def test_foreign_metadata_is_not_a_claim(decided: TopicHarness, metadata: bytes) -> None:
    with raw(decided.connection) as requests:
        requests.commit(decided.topics.group, decided.topics.commands, 0, 3, metadata[:4096])
    assert way_out(owned(decided.plan())) == "counter:0@5"
    with raw(decided.connection) as requests:
        requests.commit(decided.topics.group, decided.topics.commands, 0, 5, metadata[:4096])
    quietly(decided.plan())
    decided.check()


@pytest.mark.covers("nothing-skipped")
def test_offset_beyond_the_end_stops_it(decided: TopicHarness) -> None:
    move_group(decided, 99)
    assert "offset 99 is committed but the log ends at 10" in str(owned(decided.plan()))


def test_an_accepted_skip_counts_once(decided: TopicHarness) -> None:
    move_group(decided, 8)
    quietly(decided.plan(accept_loss=["counter:0@8"]))
    assert decided.decided_offsets() == [0, 1, 2, 3, 4, 8, 9]
    quietly(decided.plan(accept_loss=["counter:0@8"]))
    assert decided.decided_offsets() == [0, 1, 2, 3, 4, 8, 9]


def test_accepting_a_deleted_place_is_refused(decided: TopicHarness) -> None:
    plan = decided.plan(accept_loss=["counter:0@6"])
    shorten(decided, "commands", 7)
    error = owned(plan)
    assert error and error.exit_code == 2 and "7 to 10" in error.hint


def test_accepting_an_earlier_place_changes_nothing(decided: TopicHarness) -> None:
    quietly(decided.plan(accept_loss=["counter:0@3"]))
    decided.check()
    forget_group(decided)
    quietly(decided.plan(accept_loss=["counter:0@3"]))
    decided.check()


@pytest.mark.covers("one-outcome")
def test_lost_offset_never_revives_an_acceptance(decided: TopicHarness) -> None:
    move_group(decided, 8)
    plan = decided.plan(once=False, accept_loss=["counter:0@8"])
    with running(plan):
        eventually(lambda: len(decided.decided_offsets()) == 7)
        forget_group(decided)
        eventually(lambda: decided.standing()[0] == 10)
        decided.send(*increments(1, first=10))
        eventually(lambda: len(decided.decided_offsets()) == 8)
    assert decided.decided_offsets() == [0, 1, 2, 3, 4, 8, 9, 10]


@pytest.mark.covers("nothing-skipped")
def test_deleted_undecided_commands_stop_it(decided: TopicHarness) -> None:
    shorten(decided, "commands", 7)
    place = way_out(owned(decided.plan()))
    assert place == "counter:0@7"
    quietly(decided.plan(accept_loss=[place]))
    assert decided.decided_offsets() == [0, 1, 2, 3, 4, 7, 8, 9]


def test_deleted_decided_commands_do_not_matter(decided: TopicHarness) -> None:
    shorten(decided, "commands", 5)
    quietly(decided.plan())
    assert decided.decided_offsets() == list(range(10))


@pytest.mark.covers("nothing-skipped")
def test_remade_commands_stop_it_until_accepted(decided: TopicHarness) -> None:
    remake(decided, "commands")
    decided.send(*increments(2, first=10))
    place = way_out(owned(decided.plan()))
    quietly(decided.plan(accept_loss=["counter:0@0"]))
    assert place.startswith("counter:0@")
    assert decided.decided_offsets() == [0, 1, 2, 3, 4, 0, 1]
    quietly(decided.plan())
    assert len(decided.decided_offsets()) == 7


@pytest.mark.covers("nothing-skipped")
def test_lost_outcomes_stop_it_until_accepted(decided: TopicHarness) -> None:
    remake(decided, "outcomes")
    error = owned(decided.plan())
    assert "the topic of its outcomes was deleted and created again" in str(error)
    assert way_out(error) == "counter:0@5"
    forget_group(decided)
    assert "events but no outcome" in str(owned(decided.plan()))
    quietly(decided.plan(accept_loss=["counter:0@5"]))
    assert decided.decided_offsets() == [5, 6, 7, 8, 9]


@pytest.mark.covers("nothing-skipped")
def test_lost_events_stop_it_until_accepted(decided: TopicHarness) -> None:
    remake(decided, "events")
    error = owned(decided.plan())
    assert "the topic of its events was deleted and created again" in str(error)
    assert way_out(error) == "counter:0@5"
    forget_group(decided)
    error = owned(decided.plan())
    assert "leaves 'a' at version 0, though command 4 left it at 5: events were lost" in str(error)
    assert way_out(error) == "counter:0@5"
    assert decided.decided_offsets() == [0, 1, 2, 3, 4]
    quietly(decided.plan(accept_loss=["counter:0@5"]))
    quietly(decided.plan(machine="another"))
    assert [outcome.data.version for outcome in decided.outcomes()] == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]


@pytest.mark.covers("nothing-skipped")
def test_a_grown_topic_is_refused(decided: TopicHarness) -> None:
    """A run refuses topics to which partitions were added by hand, before it fences or at its claim."""
    plan = decided.plan(once=False)
    grow(decided, *KINDS, partitions=2)
    with pytest.raises(ConfigurationError, match="had 1 partitions and now has 2"):
        decided.plan(once=False)
    repartitioned = {name: replace(topic, partitions=2) for name, topic in plan.topics.items()}
    error = owned(replace(plan, topics=repartitioned))
    assert isinstance(error, ConfigurationError) and error.exit_code == 3
    assert "had 1 partitions and now has 2" in error.message


@pytest.mark.covers("nothing-skipped")
def test_a_foreign_open_transaction_stops_it(decided: TopicHarness) -> None:
    foreign = producer(decided.connection, transactional_id=f"{decided.topics.prefix}foreign")
    foreign.init_transactions(10)
    foreign.begin_transaction()
    foreign.produce(decided.topics.outcomes, b"?", partition=0)
    assert foreign.flush(10) == 0
    with impatience():
        error = owned(decided.plan())
    assert isinstance(error, UnavailableError) and error.exit_code == 4
    assert f"open transaction {decided.topics.prefix}foreign" in error.message
    assert "kafka-transactions.sh" in error.hint
    assert decided.end("outcomes") == 6  # five outcomes and a marker
    foreign.abort_transaction(10)
    settled(decided.connection, decided.topics.outcomes)
    quietly(decided.plan())
    decided.check()
