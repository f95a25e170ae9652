"""A writer's records must get the offsets directly after the expected end."""

from typing import Any

import pytest
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


def report(ends: ExpectedOffsets, count: int, last: int) -> None:
    sent: Any = ends.expect_records("t", count)
    sent(None, Message(last))


@given(st.integers(0, 10**6), st.lists(st.lists(st.integers(1, 300), min_size=1), min_size=1))
def test_consecutive_offsets_are_fine(end: int, transactions: list[list[int]]) -> None:
    """Pieces of a transaction follow each other, and a marker takes one offset between transactions."""
    ends = ExpectedOffsets()
    ends.set_log_ends({"t": end})
    for portions in transactions:
        ends.start_transaction()
        for count in portions:
            end += count
            report(ends, count, end - 1)
        ends.raise_if_misplaced()
        ends.complete_transaction()
        assert ends.reported_end("t") == end
        end += 1


@given(
    st.integers(0, 10**6),
    st.lists(st.tuples(st.lists(st.integers(1, 9), min_size=1), st.booleans()), min_size=1),
)
def test_own_markers_may_be_missing(end: int, transactions: list[tuple[list[int], bool]]) -> None:
    ends = ExpectedOffsets()
    ends.set_log_ends({"t": end})
    for portions, marked in transactions:
        ends.start_transaction()
        for count in portions:
            end += count
            report(ends, count, end - 1)
        ends.raise_if_misplaced()
        ends.complete_transaction()
        end += marked


@pytest.mark.parametrize("offsets", [(10, 9), (9, 11), (8, 10), (9, 9)])
def test_more_than_a_marker_is_found(offsets: tuple[int, int]) -> None:
    """The case is a commit whose marker is at 9, and two pieces of one record each."""
    ends = ExpectedOffsets()
    ends.set_log_ends({"t": 8})
    ends.start_transaction()
    report(ends, 1, 8)
    ends.complete_transaction()
    ends.start_transaction()
    for offset in offsets:
        report(ends, 1, offset)
    with pytest.raises((UnreadRecordsError, TopicRecreatedError)):
        ends.raise_if_misplaced()


@given(st.integers(0, 100), st.integers(1, 300), st.integers(-300, 300).filter(bool))
def test_any_other_offset_is_found(end: int, count: int, away: int) -> None:
    ends = ExpectedOffsets()
    ends.set_log_ends({"t": end})
    report(ends, count, max(0, end + count - 1 + away))
    if end + count - 1 + away < 0 and end + count - 1 == 0:
        return  # no offset is before the first
    with pytest.raises(UnreadRecordsError if away > 0 else TopicRecreatedError):
        ends.raise_if_misplaced()


def test_unread_logs_may_end_anywhere() -> None:
    ends = ExpectedOffsets()
    report(ends, 5, 1000)
    ends.raise_if_misplaced()
    ends.complete_transaction()
    report(ends, 5, 1006)
    ends.raise_if_misplaced()
