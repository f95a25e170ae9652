"""Topics, offsets and events are lost: the process manager stops, and the error names the option to continue."""

import re
from dataclasses import replace

import pytest

from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError
from tests.following.processes.process_harness import (
    ProcessHarness,
    error_texts,
    expected_payments,
    read_records,
    run_in_this_process,
)

pytestmark = pytest.mark.kafka


def accept_loss_arguments(error: CqrsError) -> list[str]:
    """Return the arguments of `--accept-loss` in a hint."""
    assert isinstance(error, ContradictionError)
    assert error.exit_code == 5
    return re.findall(r"--accept-loss (\S+)", error.hint)


@pytest.fixture
def processed_harness(harness: ProcessHarness) -> ProcessHarness:
    """Ten orders, all processed."""
    harness.place_orders(0, 10)
    harness.run_once(from_beginning=True)
    return harness


@pytest.mark.covers("reacted-once")
def test_recreated_topic_stops_the_process(processed_harness: ProcessHarness) -> None:
    processed_harness.delete_topics(processed_harness.events)
    processed_harness.create_topics()
    processed_harness.place_orders(100, 5)
    error = processed_harness.run_once_error()
    assert "the topic was recreated" in error.message
    (argument,) = accept_loss_arguments(error)
    assert argument == "checkout:order:0@0"
    processed_harness.run_once(accept_loss=[argument])
    assert processed_harness.payment_requests() == expected_payments(0, 10) + expected_payments(100, 5)
    processed_harness.run_once(accept_loss=[argument])  # the option was left in a script
    assert processed_harness.payment_requests() == expected_payments(0, 10) + expected_payments(100, 5)


@pytest.mark.covers("reacted-once")
def test_lost_group_offsets_change_nothing(processed_harness: ProcessHarness) -> None:
    processed_harness.delete_group()
    processed_harness.place_orders(10, 5)
    processed_harness.run_once()
    assert processed_harness.payment_requests() == expected_payments(0, 15)


@pytest.mark.covers("reacted-once")
def test_reset_group_offset_stops_the_process(processed_harness: ProcessHarness) -> None:
    position = processed_harness.position()
    processed_harness.place_orders(10, 5)
    processed_harness.reset_group_offset(2)
    error = processed_harness.run_once_error()
    assert position is not None
    assert f"the position is {position.offset}, but the group's offset is 2" in error.message
    processed_harness.run_once(accept_loss=accept_loss_arguments(error))
    assert processed_harness.payment_requests() == expected_payments(0, 15)


@pytest.mark.covers("reacted-once")
def test_deleted_events_stop_the_process(processed_harness: ProcessHarness) -> None:
    processed_harness.place_orders(10, 10)
    start = next(
        record.offset
        for record in read_records(processed_harness.connection, processed_harness.events, 0)
        if record.key == b"o-0-13"
    )
    processed_harness.delete_events_before(start)
    error = processed_harness.run_once_error()
    assert f"but events before {start} are deleted" in error.message
    processed_harness.run_once(accept_loss=accept_loss_arguments(error))
    assert processed_harness.payment_requests() == expected_payments(0, 10) + expected_payments(13, 7)


@pytest.mark.covers("reacted-once")
def test_lost_positions_stop_the_process(processed_harness: ProcessHarness) -> None:
    position = processed_harness.position()
    processed_harness.place_orders(10, 5)
    processed_harness.delete_topics(processed_harness.topics.positions_topic)
    with pytest.raises(ConfigurationError, match="does not exist"):
        processed_harness.plan()
    processed_harness.create_topics()
    error = processed_harness.run_once_error()
    assert position is not None
    assert f"the group's offset is {position.offset}, but no position is recorded" in error.message
    processed_harness.run_once(accept_loss=[*accept_loss_arguments(error), "checkout:payment:0@0"])
    assert processed_harness.payment_requests() == expected_payments(0, 15)


def test_repartitioned_topic_needs_a_new_plan(processed_harness: ProcessHarness) -> None:
    plan = processed_harness.plan()
    with_two_partitions = {
        **plan.events_topics,
        processed_harness.events: plan.events_topics[processed_harness.events]._replace(partitions=2),
    }
    assert (
        "had 1 partitions and now has 2"
        in error_texts(run_in_this_process(replace(plan, events_topics=with_two_partitions)))[0]
    )
