"""Topics, offsets and events are lost: the process manager stops, and names the remedy."""

import re
from dataclasses import replace

import pytest

from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError
from tests.following.processes.process_harness import Stage, errors, orders, records, run_in_this_process

pytestmark = pytest.mark.kafka


def accept_loss_arguments(error: CqrsError) -> list[str]:
    """Return the arguments of `--accept-loss` in a hint."""
    assert isinstance(error, ContradictionError)
    assert error.exit_code == 5
    return re.findall(r"--accept-loss (\S+)", error.hint)


@pytest.fixture
def processed_stage(stage: Stage) -> Stage:
    """Ten orders, all processed."""
    stage.place(0, 10)
    stage.react(beginning=True)
    return stage


@pytest.mark.covers("reacted-once")
def test_topics_made_again_stop(processed_stage: Stage) -> None:
    processed_stage.delete(processed_stage.events)
    processed_stage.make()
    processed_stage.place(100, 5)
    error = processed_stage.error()
    assert "the topic was recreated" in error.message
    (place,) = accept_loss_arguments(error)
    assert place == "checkout:order:0@0"
    processed_stage.react(accept_loss=[place])
    assert processed_stage.asked() == orders(0, 10) + orders(100, 5)
    processed_stage.react(accept_loss=[place])  # the option was left in a script
    assert processed_stage.asked() == orders(0, 10) + orders(100, 5)


@pytest.mark.covers("reacted-once")
def test_lost_group_offsets_change_nothing(processed_stage: Stage) -> None:
    before = processed_stage.position()
    processed_stage.forget_group()
    processed_stage.place(10, 5)
    processed_stage.react()
    assert before is not None
    assert processed_stage.asked() == orders(0, 15)


@pytest.mark.covers("reacted-once")
def test_moved_group_offsets_stop(processed_stage: Stage) -> None:
    at = processed_stage.position()
    processed_stage.place(10, 5)
    processed_stage.move_group(2)
    error = processed_stage.error()
    assert at is not None
    assert f"the position is {at.offset}, but the group's offset is 2" in error.message
    processed_stage.react(accept_loss=accept_loss_arguments(error))
    assert processed_stage.asked() == orders(0, 15)


@pytest.mark.covers("reacted-once")
def test_deleted_events_stop(processed_stage: Stage) -> None:
    processed_stage.place(10, 10)
    below = next(
        one.offset
        for one in records(processed_stage.connection, processed_stage.events, 0)
        if one.key == b"o-0-13"
    )
    processed_stage.shorten(below)
    error = processed_stage.error()
    assert f"but events before {below} are deleted" in error.message
    processed_stage.react(accept_loss=accept_loss_arguments(error))
    assert processed_stage.asked() == orders(0, 10) + orders(13, 7)


@pytest.mark.covers("reacted-once")
def test_lost_positions_stop(processed_stage: Stage) -> None:
    at = processed_stage.position()
    processed_stage.place(10, 5)
    processed_stage.delete(processed_stage.topics.positions)
    with pytest.raises(ConfigurationError, match="does not exist"):
        processed_stage.plan()
    processed_stage.make()
    error = processed_stage.error()
    assert at is not None
    assert f"the group's offset is {at.offset}, but no position is recorded" in error.message
    processed_stage.react(accept_loss=[*accept_loss_arguments(error), "checkout:payment:0@0"])
    assert processed_stage.asked() == orders(0, 15)


def test_grown_topics_are_refused(processed_stage: Stage) -> None:
    plan = processed_stage.plan()
    grown = {
        **plan.events,
        processed_stage.events: plan.events[processed_stage.events]._replace(partitions=2),
    }
    assert "had 1 partitions and now has 2" in errors(run_in_this_process(replace(plan, events=grown)))[0]
