"""Inconsistencies between a command and its outcome are reported."""

from dataclasses import replace
from typing import Any

import pytest

from tests.proof.history import NOW, History, PlannedCommand, plan_command
from tests.proof.violations import only_violation, violation_texts, with_members
from tests.support.foreign_records import changed_record


def test_command_decided_on_wrong_partition() -> None:
    history = History([PlannedCommand(1, "z")])
    unchanged = {"status": "unchanged", "reason": ""}
    history.outcomes[0] = changed_record(history.outcomes[0], unchanged, type="tally.Add.unchanged")
    assert "outcomes 0 is unchanged, but the partition of 'z' is 2" in violation_texts(history)


def test_altered_command_changes_its_fingerprint(history: History) -> None:
    history.commands[3] = changed_record(history.commands[3], {"n": -2})
    assert only_violation(history) == "outcomes 4 does not have the fingerprint of its command"


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        ({"timestamp": 1}, "does not have the timestamp of its command"),
        ({"key": b"b"}, "has the key b'a', its command b'b'"),
        ({"key": b"b"}, "is accepted, though the key of its command is not the subject"),
        ({"value": b"?"}, "is accepted, but its command is INVALID_ENVELOPE"),
        ({"key": None}, "is accepted, but its command is KEY_MISSING"),
    ],
)
def test_outcome_differs_from_its_command(history: History, members: dict[str, Any], problem: str) -> None:
    history.commands[0] = with_members(history.commands[0], **members)
    assert f"outcomes 0 {problem}" in violation_texts(history)


def test_false_key_mismatch_is_found() -> None:
    history = History([PlannedCommand(1, key=b"b")])
    assert history.violations() == []
    history.commands[0] = with_members(history.commands[0], key=b"a")
    assert "outcomes 0 is KEY_MISMATCH, but the key of its command is the subject" in violation_texts(history)


def test_accepted_expired_command_is_found() -> None:
    history = History([plan_command(1, expirytime="2026-11-21T00:00:00Z")])
    assert history.violations() == []
    history.commands[0] = changed_record(history.commands[0], expirytime="1970-01-01T00:00:00Z")
    assert (
        only_violation(history)
        == "outcomes 0 is accepted, but its command had expired at 1970-01-01T00:00:00+00:00"
    )


EXPIRED: dict[str, Any] = {"status": "rejected", "reason": "EXPIRED", "message": "late", "retryable": False}


@pytest.mark.parametrize(
    ("expirytime", "decidedat", "problem"),
    [
        (None, "2026-11-21T00:00:00.000Z", ", but its command has no expirytime"),
        (
            "2026-11-21T00:00:00Z",
            "2026-11-21T00:00:00.000Z",
            ", decided at 2026-11-21T00:00:00.000Z, but its command expires at 2026-11-21T00:00:00+00:00",
        ),
        (
            "1970-01-01T00:00:00Z",
            "1970-01-01T00:00:00.001Z",
            ", decided at 1970-01-01T00:00:00.001Z, before its command was written",
        ),
        ("1970-01-01T00:00:00Z", "lately", ", decided at 'lately', which is not a time"),
    ],
)
def test_false_expiry_is_found(expirytime: str | None, decidedat: str, problem: str) -> None:
    history = History([plan_command(0, expirytime=expirytime)])
    type = "tally.Add.rejected"
    history.outcomes[0] = changed_record(history.outcomes[0], EXPIRED | {"decidedat": decidedat}, type=type)
    assert only_violation(history) == f"outcomes 0 is EXPIRED{problem}"


def test_command_expires_while_waiting() -> None:
    history = History([plan_command(0, expirytime="2999-01-01T00:00:00Z")])
    late = EXPIRED | {"decidedat": "2999-01-01T00:00:00.001Z"}
    history.outcomes[0] = changed_record(history.outcomes[0], late, type="tally.Add.rejected")
    assert history.violations() == []


@pytest.mark.parametrize("timestamp", [-1, NOW, 2**60])
def test_command_expired_when_sent(timestamp: int) -> None:
    history = History([plan_command(0, expirytime="1960-01-01T00:00:00Z")])
    history.commands[0] = with_members(history.commands[0], timestamp=timestamp)
    history.decide()
    assert b"EXPIRED" in (history.outcomes[0].value or b"")
    assert history.violations() == []


@pytest.mark.parametrize("other", [plan_command(-1), plan_command(1, expectedversion="5")])
def test_expired_command_with_another_reason(other: PlannedCommand) -> None:
    expired = History(
        [replace(other, attributes=(*other.attributes, ("expirytime", "1970-01-01T00:00:00Z")))]
    )
    assert expired.violations() == []
    late = History([other])
    expired.outcomes, expired.letters = late.outcomes, late.letters
    assert "but its command had expired at 1970" in only_violation(expired)
