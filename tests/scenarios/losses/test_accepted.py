"""After an operator has accepted a loss, no command is decided twice, and the next loss is still reported."""

import pytest

from cqrs_cli.core.messages.event import read_event
from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.kafka.topics.topics import Kind
from tests.support.commands import increment_commands
from tests.support.harness import TopicHarness
from tests.support.owners import run_plan, run_plan_for_error, running_owners
from tests.support.topic_loss import delete_group, delete_records_before, recreate_topics
from tests.support.transactional_topic import abort_transaction
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def decide(counters: TopicHarness, count: int, first: int = 0, subject: str = "a") -> None:
    """Send increments and run an owner until they are decided."""
    counters.send(*increment_commands(count, subject, first=first))
    run_plan(counters.plan())


def accept(counters: TopicHarness, error: CqrsError | None) -> CqrsError | None:
    """Accept the loss that the error names. Return the error of that run, if any."""
    assert isinstance(error, ContradictionError)
    return run_plan_for_error(counters.plan(accept_loss=[error.hint.rpartition(" ")[2]]))


@pytest.mark.covers("nothing-skipped")
def test_recreated_events_are_a_second_loss(counters: TopicHarness) -> None:
    decide(counters, 5)
    counters.send(*increment_commands(2, "b"))
    delete_records_before(counters, "commands", 7)
    assert accept(counters, run_plan_for_error(counters.plan())) is None
    recreate_topics(counters, "events")
    error = run_plan_for_error(counters.plan())
    assert (
        isinstance(error, ContradictionError) and "its events was deleted and created again" in error.message
    )
    assert accept(counters, error) is None


@pytest.mark.covers("nothing-skipped")
def test_deleted_events_are_a_second_loss(counters: TopicHarness) -> None:
    decide(counters, 5)
    decide(counters, 3, subject="b")
    counters.send(*increment_commands(2, "c"))
    delete_records_before(counters, "commands", 10)
    assert accept(counters, run_plan_for_error(counters.plan())) is None
    delete_records_before(counters, "events", 5)
    error = run_plan_for_error(counters.plan(machine="another"))
    assert (
        isinstance(error, ContradictionError)
        and "begins at 5: the events from offset 0 on were deleted" in error.message
    )


@pytest.mark.covers("one-outcome")
def test_accepting_lost_outcomes_repeats_nothing(counters: TopicHarness) -> None:
    decide(counters, 5)
    recreate_topics(counters, "outcomes")
    delete_group(counters)
    assert accept(counters, run_plan_for_error(counters.plan())) is None
    decide(counters, 2, first=5)
    ids = [read_event(record.value).id for record in counters.records("events")]
    assert ids == [f"0/{offset}/0" for offset in range(7)]


@pytest.mark.covers("nothing-skipped")
def test_two_losses_at_once_are_accepted(counters: TopicHarness) -> None:
    decide(counters, 10)
    recreate_topics(counters, "commands", "events")
    counters.send(*increment_commands(3, first=10))
    assert accept(counters, run_plan_for_error(counters.plan())) is None
    assert counters.decided_offsets()[10:] == [0, 1, 2]


@pytest.mark.covers("nothing-skipped")
@pytest.mark.parametrize("once", [True, False])
def test_a_loss_is_accepted_without_commands(counters: TopicHarness, once: bool) -> None:
    decide(counters, 5)
    recreate_topics(counters, "outcomes")
    error = run_plan_for_error(counters.plan())
    if once:
        assert accept(counters, error) is None
    else:
        with running_owners(counters.plan(once=False, accept_loss=["counter:0@5"])):
            eventually(lambda: (claim := counters.position_and_claim()[1]) and claim.accepted)
    assert run_plan_for_error(counters.plan()) is None


def test_an_old_acceptance_skips_deleted_offset(counters: TopicHarness) -> None:
    counters.send(*increment_commands(5))
    run_plan(counters.plan(accept_loss=["counter:0@3"]))
    delete_records_before(counters, "commands", 4)
    counters.send(*increment_commands(1, first=5))
    run_plan(counters.plan(accept_loss=["counter:0@3"]))
    assert counters.decided_offsets() == [3, 4, 5]


@pytest.mark.covers("one-outcome")
@pytest.mark.parametrize("kind", ["commands", "outcomes"])
def test_acceptance_survives_control_records(counters: TopicHarness, kind: Kind) -> None:
    decide(counters, 5)
    recreate_topics(counters, kind)
    assert accept(counters, run_plan_for_error(counters.plan())) is None
    abort_transaction(counters.connection, counters.topics.commands, [b"?"])  # leaves only control records
    run_plan(counters.plan())
    decide(counters, 2, first=5)
    first_offset = 2 if kind == "commands" else 7
    assert counters.decided_offsets()[-2:] == [first_offset, first_offset + 1]


@pytest.mark.covers("one-outcome")
def test_old_acceptance_covers_no_new_loss(counters: TopicHarness) -> None:
    counters.send(*increment_commands(5))
    run_plan(counters.plan(accept_loss=["counter:0@3"]))
    decide(counters, 3, first=5)
    recreate_topics(counters, "outcomes")
    assert run_plan_for_error(counters.plan(accept_loss=["counter:0@3"])) is not None
    run_plan(counters.plan(accept_loss=["counter:0@8"]))
    counters.send(*increment_commands(1, first=8))
    run_plan(counters.plan(accept_loss=["counter:0@3"]))
    assert counters.decided_offsets() == [8]


@pytest.mark.covers("nothing-skipped")
def test_deleted_commands_are_a_second_loss(counters: TopicHarness) -> None:
    decide(counters, 5)
    recreate_topics(counters, "outcomes")
    assert accept(counters, run_plan_for_error(counters.plan())) is None
    counters.send(*increment_commands(3, first=5))
    delete_records_before(counters, "commands", 8)
    counters.send(*increment_commands(1, first=8))
    error = run_plan_for_error(counters.plan())
    assert isinstance(error, ContradictionError) and "5 to 7 were deleted before they were" in error.message
    assert accept(counters, error) is None
    assert counters.decided_offsets() == [8]


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize(("count_before", "count_after"), [(5, 8), (1, 3), (5, 3)])
def test_verify_accepts_recreated_and_shortened_commands(
    counters: TopicHarness, count_before: int, count_after: int
) -> None:
    decide(counters, count_before)
    recreate_topics(counters, "commands")
    counters.send(*increment_commands(count_after, first=count_before))
    assert accept(counters, run_plan_for_error(counters.plan())) is None
    assert counters.decided_offsets()[count_before:] == list(range(count_after))
    assert counters.violations() == []
    delete_records_before(counters, "commands", 2)
    decide(counters, 1, first=count_before + count_after)
    assert counters.violations() == []
