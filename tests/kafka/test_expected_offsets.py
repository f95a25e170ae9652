"""A writer's records must get the offsets directly after the expected end."""

from typing import Any

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.kafka.expected_offsets import ExpectedOffsets
from cqrs_cli.kafka.write_errors import TopicRecreatedError, UnreadRecordsError


class Message:
    """A delivered record."""

    def __init__(self, offset: int) -> None:
        self._offset = offset

    def offset(self) -> int:
        return self._offset


def report_delivery(expected_offsets: ExpectedOffsets, count: int, last_offset: int) -> None:
    callback: Any = expected_offsets.expect_records("t", count)
    callback(None, Message(last_offset))


def test_missing_reports_are_noticed() -> None:
    expected_offsets = ExpectedOffsets()
    expected_offsets.start_transaction()
    assert expected_offsets.are_all_reported()
    callbacks: list[Any] = [expected_offsets.expect_records("t", 1), expected_offsets.expect_records("t", 2)]
    callbacks[0](None, Message(0))
    assert not expected_offsets.are_all_reported()
    callbacks[1](KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), Message(-1))
    assert not expected_offsets.are_all_reported()
    callbacks[1](None, Message(2))
    assert expected_offsets.are_all_reported()


@given(st.integers(0, 10**6), st.lists(st.lists(st.integers(1, 300), min_size=1), min_size=1))
def test_consecutive_offsets_are_fine(end: int, transactions: list[list[int]]) -> None:
    """Pieces of a transaction follow each other, and a marker takes one offset between transactions."""
    expected_offsets = ExpectedOffsets()
    expected_offsets.set_log_ends({"t": end})
    for piece_sizes in transactions:
        expected_offsets.start_transaction()
        for count in piece_sizes:
            end += count
            report_delivery(expected_offsets, count, end - 1)
        expected_offsets.raise_if_misplaced()
        expected_offsets.complete_transaction()
        assert expected_offsets.reported_end("t") == end
        end += 1


@given(
    st.integers(0, 10**6),
    st.lists(st.tuples(st.lists(st.integers(1, 9), min_size=1), st.booleans()), min_size=1),
)
def test_transaction_markers_may_be_missing(end: int, transactions: list[tuple[list[int], bool]]) -> None:
    expected_offsets = ExpectedOffsets()
    expected_offsets.set_log_ends({"t": end})
    for piece_sizes, has_marker in transactions:
        expected_offsets.start_transaction()
        for count in piece_sizes:
            end += count
            report_delivery(expected_offsets, count, end - 1)
        expected_offsets.raise_if_misplaced()
        expected_offsets.complete_transaction()
        end += has_marker


@pytest.mark.parametrize("offsets", [(10, 9), (9, 11), (8, 10), (9, 9)])
def test_gap_larger_than_a_marker_is_found(offsets: tuple[int, int]) -> None:
    """The case is a commit whose marker is at 9, and two pieces of one record each."""
    expected_offsets = ExpectedOffsets()
    expected_offsets.set_log_ends({"t": 8})
    expected_offsets.start_transaction()
    report_delivery(expected_offsets, 1, 8)
    expected_offsets.complete_transaction()
    expected_offsets.start_transaction()
    for offset in offsets:
        report_delivery(expected_offsets, 1, offset)
    with pytest.raises((UnreadRecordsError, TopicRecreatedError)):
        expected_offsets.raise_if_misplaced()


def test_missing_abort_marker_is_found() -> None:
    """A commit of the next transaction would commit the aborted record, too."""
    expected_offsets = ExpectedOffsets()
    expected_offsets.set_log_ends({"t": 8})
    report_delivery(expected_offsets, 1, 8)
    expected_offsets.complete_transaction(is_committed=False)
    assert expected_offsets.unproven_topics() == ["t"]
    expected_offsets.start_transaction()
    report_delivery(expected_offsets, 1, 9)
    with pytest.raises(TopicRecreatedError):
        expected_offsets.raise_if_misplaced()


@given(st.integers(0, 100), st.integers(1, 300), st.integers(-300, 300).filter(bool))
def test_any_other_offset_is_found(end: int, count: int, distance: int) -> None:
    expected_offsets = ExpectedOffsets()
    expected_offsets.set_log_ends({"t": end})
    report_delivery(expected_offsets, count, max(0, end + count - 1 + distance))
    if end + count - 1 + distance < 0 and end + count - 1 == 0:
        return  # no offset is before the first
    with pytest.raises(UnreadRecordsError if distance > 0 else TopicRecreatedError):
        expected_offsets.raise_if_misplaced()


def test_unread_logs_may_end_anywhere() -> None:
    expected_offsets = ExpectedOffsets()
    report_delivery(expected_offsets, 5, 1000)
    expected_offsets.raise_if_misplaced()
    expected_offsets.complete_transaction()
    report_delivery(expected_offsets, 5, 1006)
    expected_offsets.raise_if_misplaced()
