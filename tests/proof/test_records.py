"""Unreadable and misplaced records are reported in all topics."""

from typing import Any

import pytest

from cqrs_cli.core.messages.record import Record
from tests.proof.history import History, append_record, with_value
from tests.proof.violations import violation_positions, violation_texts, with_members


@pytest.mark.parametrize("value", [None, b"", b"[]", b"\xff", b'{"data":' * 100_000])
def test_unreadable_records_are_named(history: History, value: bytes | None) -> None:
    event = append_record(history.events, with_value(history.events[0], value))
    outcome = append_record(history.outcomes, with_value(history.outcomes[0], value))
    letter = append_record(history.letters, Record(0, 0, None, value, None))
    assert violation_positions(history) == [
        ("dead-letters", letter),
        ("events", event),
        ("outcomes", outcome),
    ]


@pytest.mark.parametrize("kind", ["outcomes", "events"])
@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"headers": None}, "has other headers than an "),
        ({"key": b"b"}, "is of 'a' under the key b'b'"),
        ({"timestamp": 1}, "has the time "),
    ],
)
def test_record_differs_from_its_value(
    history: History, kind: str, members: dict[str, Any], problem: str
) -> None:
    log: list[Record] = getattr(history, kind)
    log[0] = with_members(log[0], **members)
    assert any(text.startswith(f"{kind} 0 {problem}") for text in violation_texts(history))


@pytest.mark.parametrize("kind", ["outcomes", "events"])
@pytest.mark.parametrize("index", [0, 1, -1])
@pytest.mark.parametrize(
    "members",
    [
        {"timestamp": -1},
        {"timestamp": -(2**63)},
        {"timestamp": 2**63 - 1},
        {"key": None},
        {"key": b""},
        {"key": b"\xff" * 600},
        {"headers": [("content-type", None)]},
    ],
)
def test_absurd_record_is_named(history: History, kind: str, index: int, members: dict[str, Any]) -> None:
    log: list[Record] = getattr(history, kind)
    log[index] = with_members(log[index], **members)
    assert (kind, log[index].offset) in violation_positions(history, on_disk=True)
