"""The checks of an outcome against its command: mainly, no command is decided before it is due or after it expires."""

import json
from typing import Any

import pytest

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.outcome_checks import check_outcome
from cqrs_cli.proof.scope import Scope
from tests.proof.history import History, PlannedCommand, plan_command
from tests.proof.index_entries import outcome_entry
from tests.proof.violations import violation_texts, without_members
from tests.support.commands import command

#: The time of the record, ms: 1970-01-01T00:16:40Z.
TIME = 1_000_000
DECIDED = [
    ("accepted", ""),
    ("unchanged", ""),
    ("rejected", "BUSINESS_RULE"),
    ("rejected", "VERSION_CONFLICT"),
]


def problems_about(
    status: str, reason: str, text: str, outcome_type: str = "", **attributes: Any
) -> list[str]:
    """Compare an outcome with its command, and return only the contradictions that contain `text`."""
    sent_command = command("way.Go", "a", "x", **attributes)
    entry = outcome_entry(status, reason, timestamp=TIME, type=outcome_type or f"way.Go.{status}")
    record = Record(0, TIME, sent_command.key, sent_command.value, [*HEADERS])
    return [
        problem for problem in check_outcome(Scope("way", "", 0, {}, 0), record, entry) if text in problem
    ]


@pytest.mark.parametrize(("status", "reason"), [*DECIDED, ("rejected", "EXPIRED"), ("deferred", "LATER")])
def test_command_waits_for_its_moment(status: str, reason: str) -> None:
    expected = f"is {reason or status}, but its command's notbefore is later"
    assert problems_about(status, reason, "notbefore", notbefore="1970-01-01T00:16:40.001Z") == [expected]
    assert problems_about(status, reason, "notbefore", notbefore="1970-01-01T00:16:40Z") == []
    assert problems_about(status, reason, "notbefore") == []


@pytest.mark.parametrize(
    ("status", "reason"), [("deferred", "NOT_YET"), ("duplicate", ""), ("failed", "UNKNOWN_TYPE")]
)
def test_undecided_command_may_wait(status: str, reason: str) -> None:
    assert problems_about(status, reason, "notbefore", notbefore="2999-01-01T00:00:00Z") == []


@pytest.mark.parametrize("attributes", [{}, {"notbefore": "1970-01-01T00:16:40Z"}])
def test_command_waits_for_nothing_else(attributes: dict[str, str]) -> None:
    problems = problems_about("deferred", "NOT_YET", "notbefore", **attributes)
    assert problems == ["is NOT_YET, but its command has no later notbefore"]


@pytest.mark.parametrize(("status", "reason"), DECIDED)
def test_expired_command_is_not_decided(status: str, reason: str) -> None:
    expected = f"is {reason or status}, but its command had expired at 1970-01-01T00:16:39.999000+00:00"
    assert problems_about(status, reason, "expired", expirytime="1970-01-01T00:16:39.999Z") == [expected]
    for time in ("1970-01-01T00:16:40Z", "1970-01-01T00:16:40.001Z"):
        assert problems_about(status, reason, "expired", expirytime=time) == []


@pytest.mark.parametrize(
    ("status", "outcome_type"), [("failed", "way.Stay.failed"), ("accepted", "cqrs.failed")]
)
def test_type_of_another_command_is_named(status: str, outcome_type: str) -> None:
    assert problems_about(status, "", "type", outcome_type) == [
        f"has the type {outcome_type!r}, its command 'way.Go'"
    ]


def test_outcome_keeps_a_too_long_key() -> None:
    assert History([PlannedCommand(1, key=b"k" * 1025)]).violations() == []


def test_reserved_command_needs_no_expected_version() -> None:
    """Only `cqrs.Cancel` may be NOT_FOUND without an expected version."""
    members = json.loads(History([plan_command(0)]).commands[0].value or b"")
    cancel = json.dumps(members | {"type": "cqrs.Cancel", "data": {"id": "q"}}).encode()
    history = History([PlannedCommand(0, value=cancel)])
    assert b"NOT_FOUND" in (history.outcomes[0].value or b"")
    assert history.violations() == []
    history = History([plan_command(1, expectedversion="exists")])
    history.outcomes[0] = without_members(history.outcomes[0], "expected")
    assert "outcomes 0 is NOT_FOUND without an expected version" in violation_texts(history)
