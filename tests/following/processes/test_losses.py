"""Topics, offsets and events are lost: the process manager stops, and names the remedy."""

import re
from dataclasses import replace

import pytest

from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError
from tests.following.processes.stage import Stage, errors, orders, react_here, records

pytestmark = pytest.mark.kafka


def way_out(error: CqrsError) -> list[str]:
    """Return the arguments of `--accept-loss` in a hint."""
    assert isinstance(error, ContradictionError)
    assert error.exit_code == 5
    return re.findall(r"--accept-loss (\S+)", error.hint)


@pytest.fixture
def begun(stage: Stage) -> Stage:
    """Ten orders, all processed."""
    stage.place(0, 10)
    stage.react(beginning=True)
    return stage


@pytest.mark.covers("reacted-once")
def test_topics_made_again_stop(begun: Stage) -> None:
    begun.delete(begun.events)
    begun.make()
    begun.place(100, 5)
    error = begun.error()
    assert "the topic was deleted and made again" in error.message
    (place,) = way_out(error)
    assert place == "checkout:order:0@0"
    begun.react(accept_loss=[place])
    assert begun.asked() == orders(0, 10) + orders(100, 5)
    begun.react(accept_loss=[place])  # the option was left in a script
    assert begun.asked() == orders(0, 10) + orders(100, 5)


@pytest.mark.covers("reacted-once")
def test_lost_group_offsets_change_nothing(begun: Stage) -> None:
    before = begun.position()
    begun.forget_group()
    begun.place(10, 5)
    begun.react()
    assert before is not None
    assert begun.asked() == orders(0, 15)


@pytest.mark.covers("reacted-once")
def test_moved_group_offsets_stop(begun: Stage) -> None:
    at = begun.position()
    begun.place(10, 5)
    begun.move_group(2)
    error = begun.error()
    assert at is not None
    assert f"the position is {at.offset}, but the group's offset is 2" in error.message
    begun.react(accept_loss=way_out(error))
    assert begun.asked() == orders(0, 15)


@pytest.mark.covers("reacted-once")
def test_deleted_events_stop(begun: Stage) -> None:
    begun.place(10, 10)
    below = next(one.offset for one in records(begun.connection, begun.events, 0) if one.key == b"o-0-13")
    begun.shorten(below)
    error = begun.error()
    assert f"but events before {below} are deleted" in error.message
    begun.react(accept_loss=way_out(error))
    assert begun.asked() == orders(0, 10) + orders(13, 7)


@pytest.mark.covers("reacted-once")
def test_lost_positions_stop(begun: Stage) -> None:
    at = begun.position()
    begun.place(10, 5)
    begun.delete(begun.topics.positions)
    with pytest.raises(ConfigurationError, match="does not exist"):
        begun.plan()
    begun.make()
    error = begun.error()
    assert at is not None
    assert f"the group's offset is {at.offset}, but no position is recorded" in error.message
    begun.react(accept_loss=[*way_out(error), "checkout:payment:0@0"])
    assert begun.asked() == orders(0, 15)


def test_grown_topics_are_refused(begun: Stage) -> None:
    plan = begun.plan()
    grown = {**plan.events, begun.events: plan.events[begun.events]._replace(partitions=2)}
    assert "had 1 partitions and now has 2" in errors(react_here(replace(plan, events=grown)))[0]
