"""Inconsistent outcomes, of deferred commands and others, with the messages that `verify` prints."""

from typing import Any

import pytest
from msgspec import UNSET

from cqrs_cli.core.messages.outcome import Original, Verdict
from cqrs_cli.proof.verdict import check_verdict

FIRST = Original(0, "accepted", 1, 1)
#: The usual members of each status.
MEMBERS: dict[str, dict[str, Any]] = {
    "accepted": {"version": 1, "events": 1},
    "unchanged": {},
    "deferred": {"reason": "LATER", "retryable": False, "due": "", "attempt": 1},
    "duplicate": {"original": FIRST},
    "rejected": {"reason": "BUSINESS_RULE", "retryable": False},
    "failed": {"reason": "UNKNOWN_TYPE", "retryable": False},
}


def problems(status: str, reserved: bool = False, **members: Any) -> list[str]:
    members = {**MEMBERS[status], **members}
    if "reason" in members:
        members = {"message": "why", **members}
    if members.get("reason") == "BUSINESS_RULE":
        members = {"code": "NO", **members}
    verdict = Verdict(**{"status": status, "fingerprint": 5, **members})
    return list(check_verdict(verdict, reserved))


@pytest.mark.parametrize("status", MEMBERS)
def test_usual_outcome_is_consistent(status: str) -> None:
    assert problems(status) == []


def test_duplicate_of_a_deferred_command_is_fine() -> None:
    assert problems("duplicate", original=Original(0, "deferred", 1, 0)) == []


@pytest.mark.parametrize(
    ("status", "members", "message"),
    [
        ("accepted", {"original": FIRST}, "is accepted with a first decision"),
        ("rejected", {"original": FIRST}, "is rejected (BUSINESS_RULE) with a first decision"),
        (
            "duplicate",
            {"original": Original(0, "failed", 0, 0)},
            "points to a decision that was failed, which is not",
        ),
        ("duplicate", {"original": UNSET}, "is duplicate without a first decision"),
        ("accepted", {"decidedat": "x"}, "is accepted with a decidedat"),
        ("rejected", {"reason": "EXPIRED"}, "is rejected without a decidedat"),
        ("accepted", {"code": "NO"}, "is accepted with a code"),
        ("rejected", {"code": UNSET}, "is BUSINESS_RULE without a code"),
        ("accepted", {"message": "fine"}, "is accepted with a message"),
        ("failed", {"message": UNSET}, "is UNKNOWN_TYPE without a message"),
        ("accepted", {"due": "x"}, "is accepted with a time when it is due, without an attempt"),
        ("accepted", {"attempt": 1}, "is accepted without a time when it is due, with an attempt"),
    ],
)
def test_inconsistency_is_explained(status: str, members: dict[str, Any], message: str) -> None:
    (problem,) = problems(status, **members)
    assert problem.startswith(message)


def test_expectation_counts_only_where_it_was_checked() -> None:
    unmet_expectation: dict[str, Any] = {"expected": "7", "version": 1}
    assert (
        problems("failed", **unmet_expectation)
        == problems("rejected", reason="ID_REUSED", original=FIRST, **unmet_expectation)
        == []
    )
    for status in ("accepted", "unchanged", "rejected"):
        members: dict[str, Any] = unmet_expectation | ({"events": 1} if status == "accepted" else {})
        assert len(problems(status, **members)) == 1, status
        assert len(problems(status, reserved=True, **members)) == 1, status


def test_expectation_may_hold_or_be_checked_before() -> None:
    """The decision that a duplicate repeats was checked when it was made."""
    for status in ("accepted", "unchanged", "rejected"):
        assert problems(status, expected="any") == [], status
    assert problems("duplicate", expected="07") == []


def test_cancel_may_find_no_deferred_command() -> None:
    """`cqrs.Cancel` is NOT_FOUND if no such command is deferred, which does not concern the expected version."""
    not_found: dict[str, Any] = {"reason": "NOT_FOUND"}
    assert problems("rejected", reserved=True, **not_found) == []
    assert problems("rejected", **not_found) == ["is NOT_FOUND without an expected version"]
