"""The records that a verification of a partition reads, and the records that it skips."""

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.findings import DecidedRange, LogName, Report
from cqrs_cli.proof.index_entries import OFFSET_LIMIT
from cqrs_cli.proof.partition import PartitionVerification, Scratch
from cqrs_cli.proof.scope import Scope
from cqrs_cli.state.memory import MemoryStore
from tests.proof.index_entries import OutcomeIndex


class IndexWithLast(OutcomeIndex):
    """An index whose highest command is known."""

    def last_command(self) -> int | None:
        return max(self, default=None)


@pytest.mark.parametrize(
    ("decided", "last", "end"),
    [
        (DecidedRange(5, 7), 9, 7),
        (DecidedRange(5, OFFSET_LIMIT), None, 5),
        (DecidedRange(5, OFFSET_LIMIT), 3, 5),
        (DecidedRange(5, OFFSET_LIMIT), 9, 10),
        (DecidedRange(0, OFFSET_LIMIT), None, 0),
        (DecidedRange(0, OFFSET_LIMIT), 0, 1),
    ],
)
def test_commands_are_read_to_the_end(decided: DecidedRange, last: int | None, end: int) -> None:
    """The end is the decided range's. Without a committed offset, only the last outcome is known."""
    index = IndexWithLast() if last is None else IndexWithLast({last: None})  # type: ignore[dict-item]
    assert verification(index).commands_end(decided) == end


def test_nothing_is_reported_before_it_is_read() -> None:
    report = verification(IndexWithLast()).report()
    assert report == Report()
    assert report.deleted == {}


def verification(index: IndexWithLast) -> PartitionVerification:
    starts: dict[LogName, int] = {"events": 0, "outcomes": 0, "dead-letters": 0}
    scratch = Scratch(index, index, index, MemoryStore(1))  # type: ignore[arg-type]
    return PartitionVerification(Scope("way", "", 0, starts, 1), scratch)


def test_unreadable_entry_is_reported() -> None:
    partition = verification(IndexWithLast())
    partition.deferred.read([Record(3, 0, b"?", b"?", [])])
    assert [(violation.log, violation.offset) for violation in partition.report().violations] == [
        ("deferred", 3)
    ]
