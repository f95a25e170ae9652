"""The position at which a process manager continues: every case, without a broker."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.errors import ConfigurationError, ContradictionError, UsageError
from cqrs_cli.following.processes.position import (
    ProcessPosition,
    Skip,
    SourceState,
    StartPosition,
    check_skip,
    position_key,
    read_position,
    start_position,
)
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.topics.process_topics import ProcessTopics
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import Claim

SOURCE = EventPartition("order", "shop.order.events", 3)


def position_at(offset: int, topic_id: str = "id-1", **fields: Any) -> ProcessPosition:
    return ProcessPosition(offset, Claim(1, "run", 0, 0, 4, topic_id, 8), **fields)


def state(position: ProcessPosition | None = None, group: int | None = None, **changes: Any) -> SourceState:
    default = SourceState("checkout", SOURCE, "id-1", 8, 0, 90, 100, position, group)
    return default._replace(**changes)


def test_new_process_starts_at_end_or_beginning() -> None:
    assert start_position(state()) == StartPosition(90, start=90)  # the last stable offset
    assert start_position(state(), from_beginning=True) == StartPosition(0, start=0)


@pytest.mark.covers("nothing-skipped")
def test_deleted_beginning_stops() -> None:
    with pytest.raises(ContradictionError, match="starts at the beginning, but events before 5 are deleted"):
        start_position(state(log_start=5), from_beginning=True)
    accepted = start_position(state(log_start=5), from_beginning=True, accepted_loss=5)
    assert accepted == StartPosition(5, accepted=5)
    assert start_position(state(log_start=5)).offset == 90


def test_start_is_kept() -> None:
    """An accepted loss before the start moves the start; a recreated topic has no known start."""
    position = position_at(40, start=7, stopped=40)
    assert start_position(state(position)).start == start_position(state(position), skip=40).start == 7
    assert [start_position(state(position, 39), accepted_loss=offset).start for offset in (9, 5)] == [7, 5]
    assert start_position(state(position_at(40, "id-0", start=7)), accepted_loss=9).start is None


def test_recorded_position_is_continued() -> None:
    assert start_position(state(position_at(40), 40)) == StartPosition(40)
    assert start_position(state(position_at(40), None), from_beginning=True) == StartPosition(40)


def test_bounds_of_the_log_are_positions() -> None:
    assert start_position(state(position_at(0), 0)) == StartPosition(0)
    assert start_position(state(position_at(100), 100)) == StartPosition(100)


INCONSISTENCIES = [
    (state(position_at(40, "id-0"), 40), "the topic was recreated", 0),
    (state(position_at(40), 39), "the group's offset is 39: another program moved it", 40),
    (state(position_at(40), None, log_start=41), "events before 41 are deleted", 41),
    (state(position_at(101), 101), "the log ends at 100", 100),
    (state(None, 40), "no position is recorded", 40),
]


@pytest.mark.covers("reacted-once")
@pytest.mark.parametrize(("source_state", "problem", "continue_at"), INCONSISTENCIES)
def test_inconsistencies_raise(source_state: SourceState, problem: str, continue_at: int) -> None:
    with pytest.raises(ContradictionError, match=problem) as stopped:
        start_position(source_state, from_beginning=True)
    assert stopped.value.hint.endswith(f"--accept-loss checkout:order:3@{continue_at}")
    assert start_position(source_state, accepted_loss=continue_at) == StartPosition(
        continue_at, accepted=continue_at
    )
    with pytest.raises(UsageError, match="has no offset 102"):
        start_position(source_state, accepted_loss=102)


def test_accepted_losses_count_once() -> None:
    already_accepted = state(position_at(40, accepted=60), 39)
    with pytest.raises(ContradictionError):
        start_position(already_accepted, accepted_loss=60)
    assert start_position(already_accepted, accepted_loss=61).offset == 61


def test_repartitioned_topic_needs_a_new_plan() -> None:
    with pytest.raises(ConfigurationError, match=r"had 8 partitions and now has 9"):
        start_position(state(position_at(40), 40, partition_count=9), accepted_loss=40)


def test_skips_are_for_the_event_that_stopped() -> None:
    stopped = state(position_at(40, stopped=40), 40)
    skipped = StartPosition(41, skipped=40, skips=(Skip(40, 7, "ann"),))
    assert start_position(stopped, skip=40, actor="ann", now=7) == skipped
    assert start_position(stopped, skip=39) == StartPosition(40, stopped=40)
    assert start_position(state(position_at(40), 40), skip=40) == StartPosition(40)
    check_skip(stopped, 40)
    check_skip(state(position_at(41, skipped=40), 41), 40)
    with pytest.raises(UsageError, match="its position is 40"):
        check_skip(state(position_at(40), 40), 40)


numbers = st.integers(0, 100)
positions = st.builds(
    position_at,
    numbers,
    st.sampled_from(["id-1", "id-0"]),
    stopped=st.none() | numbers,
    skipped=st.none() | numbers,
    accepted=st.none() | numbers,
)


@given(st.none() | positions, st.none() | numbers, numbers, numbers, numbers, st.booleans())
def test_options_move_only_a_stopped_process(
    position: ProcessPosition | None,
    group: int | None,
    start: int,
    skip: int,
    accepted_loss: int,
    from_beginning: bool,
) -> None:
    """Without a fault, an operator's options move the position by at most the event at which it stopped."""
    current = state(position, group, log_start=start, log_end=200)
    try:
        expected = start_position(current, from_beginning=from_beginning)
    except ContradictionError:
        return
    chosen = start_position(current, from_beginning=from_beginning, skip=skip, accepted_loss=accepted_loss)
    if position is not None and position.stopped == position.offset == skip:
        assert chosen.offset == expected.offset + 1
    else:
        assert chosen == expected
    next_state = state(
        ProcessPosition(chosen.offset, position_at(0).claim, *chosen[1:]),
        chosen.offset,
        log_start=start,
        log_end=200,
    )
    if start <= chosen.offset:  # the same options once more
        assert (
            start_position(
                next_state, from_beginning=from_beginning, skip=skip, accepted_loss=accepted_loss
            ).offset
            == chosen.offset
        )


@given(positions)
def test_records_are_read_back(position: ProcessPosition) -> None:
    assert read_position(position.encode()) == position


@pytest.mark.parametrize("value", [None, b"", b"{}", b"[" * 9999, b'{"offset":"7"}'])
def test_other_records_are_not_positions(value: bytes | None) -> None:
    with pytest.raises(ValueError):
        read_position(value)


def test_names_have_the_prefix() -> None:
    topics = ProcessTopics("checkout", "shop.")
    assert topics.positions_topic == "shop.process.checkout.positions"
    assert topics.group == "cqrs.shop.process.checkout"
    assert topics.transactional_id(SOURCE.topic, 3) == "cqrs.shop.process.checkout.shop.order.events.3"
    assert position_key(SOURCE) == b"shop.order.events/3"
    assert topics.transactional_id(SOURCE.topic, 3) != Topics("order", "shop.").transactional_id(3)


def test_every_skip_is_kept() -> None:
    """A skip is kept until the topic is recreated, because its offsets then mean other events."""
    first = start_position(state(position_at(50, stopped=50)), skip=50)
    assert first == StartPosition(51, None, 50, skips=(Skip(50, 0, ""),))
    second = start_position(state(position_at(60, stopped=60, skipped=50)), skip=60)
    assert second == StartPosition(61, None, 60, None, (50,), skips=(Skip(60, 0, ""),))
    position = position_at(70, skipped=60, skipped_before=(50,))
    assert position.all_skipped == (50, 60) and position_at(70).all_skipped == ()
    assert start_position(state(position)) == StartPosition(70, None, 60, None, (50,))
    assert read_position(position.encode()) == position
    assert start_position(state(position_at(120, skipped=60, skipped_before=(50,))), accepted_loss=90)[
        2:5
    ] == (
        60,
        90,
        (50,),
    )
    assert start_position(state(position_at(70, "id-0", skipped=60)), accepted_loss=20) == StartPosition(
        20, accepted=20
    )
