"""Unreadable and misplaced records are reported in all topics."""

from typing import Any

import pytest

from cqrs_cli.core.messages.record import Record
from tests.proof.history import History, appended, with_value
from tests.proof.violations import described, places, remade


@pytest.mark.parametrize("value", [None, b"", b"[]", b"\xff", b'{"data":' * 100_000])
def test_unreadable_records_are_named(history: History, value: bytes | None) -> None:
    at = appended(history.events, with_value(history.events[0], value))
    also = appended(history.outcomes, with_value(history.outcomes[0], value))
    letter = appended(history.letters, Record(0, 0, None, value, None))
    assert places(history) == [("dead-letters", letter), ("events", at), ("outcomes", also)]


@pytest.mark.parametrize("kind", ["outcomes", "events"])
@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"headers": None}, "has other headers than an "),
        ({"key": b"b"}, "is of 'a' under the key b'b'"),
        ({"timestamp": 1}, "has the time "),
    ],
)
def test_record_differs_from_its_value(
    history: History, kind: str, members: dict[str, Any], what: str
) -> None:
    log: list[Record] = getattr(history, kind)
    log[0] = remade(log[0], **members)
    assert any(text.startswith(f"{kind} 0 {what}") for text in described(history))


@pytest.mark.parametrize("kind", ["outcomes", "events"])
@pytest.mark.parametrize("at", [0, 1, -1])
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
def test_absurd_record_is_named(history: History, kind: str, at: int, members: dict[str, Any]) -> None:
    log: list[Record] = getattr(history, kind)
    log[at] = remade(log[at], **members)
    assert (kind, log[at].offset) in places(history, on_disk=True)
