"""The time at which a command may be decided: not before it is due, not after it expires. Each rule on its own."""

import json
from typing import Any

import pytest

from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.outcome_checks import check_outcome
from cqrs_cli.proof.scope import Scope
from tests.proof.history import History, Wish, wish
from tests.proof.traces import outcome
from tests.proof.violations import described, without
from tests.support.commands import command

#: The time of the record, ms: 1970-01-01T00:16:40Z.
AT = 1_000_000
DECIDED = [
    ("accepted", ""),
    ("unchanged", ""),
    ("rejected", "BUSINESS_RULE"),
    ("rejected", "VERSION_CONFLICT"),
]


def said(status: str, reason: str, about: str, outcome_type: str = "", **attributes: Any) -> list[str]:
    """Return the inconsistencies between an outcome and its command whose text contains `about`."""
    sent = command("way.Go", "a", "x", **attributes)
    trace = outcome(status, reason, timestamp=AT, type=outcome_type or f"way.Go.{status}")
    record = Record(0, AT, sent.key, sent.value, [*HEADERS])
    return [what for what in check_outcome(Scope("way", "", 0, {}, 0), record, trace) if about in what]


@pytest.mark.parametrize(("status", "reason"), [*DECIDED, ("rejected", "EXPIRED"), ("deferred", "LATER")])
def test_command_waits_for_its_moment(status: str, reason: str) -> None:
    early = f"is {reason or status}, and its command's notbefore was to come"
    assert said(status, reason, "notbefore", notbefore="1970-01-01T00:16:40.001Z") == [early]
    assert said(status, reason, "notbefore", notbefore="1970-01-01T00:16:40Z") == []
    assert said(status, reason, "notbefore") == []


@pytest.mark.parametrize(
    ("status", "reason"), [("deferred", "NOT_YET"), ("duplicate", ""), ("failed", "UNKNOWN_TYPE")]
)
def test_undecided_command_may_wait(status: str, reason: str) -> None:
    assert said(status, reason, "notbefore", notbefore="2999-01-01T00:00:00Z") == []


@pytest.mark.parametrize("attributes", [{}, {"notbefore": "1970-01-01T00:16:40Z"}])
def test_command_waits_for_nothing_else(attributes: dict[str, str]) -> None:
    found = said("deferred", "NOT_YET", "notbefore", **attributes)
    assert found == ["is NOT_YET, and its command has no notbefore that was to come"]


@pytest.mark.parametrize(("status", "reason"), DECIDED)
def test_expired_command_is_not_decided(status: str, reason: str) -> None:
    late = f"is {reason or status}, and its command had expired at 1970-01-01T00:16:39.999000+00:00"
    assert said(status, reason, "expired", expirytime="1970-01-01T00:16:39.999Z") == [late]
    for moment in ("1970-01-01T00:16:40Z", "1970-01-01T00:16:40.001Z"):
        assert said(status, reason, "expired", expirytime=moment) == []


@pytest.mark.parametrize(("status", "found"), [("failed", "way.Stay.failed"), ("accepted", "cqrs.failed")])
def test_type_of_another_command_is_named(status: str, found: str) -> None:
    assert said(status, "", "type", found) == [f"has the type {found!r}, its command 'way.Go'"]


def test_long_key_stays_in_its_outcome() -> None:
    assert History([Wish(1, key=b"k" * 1025)]).violations() == []


def test_reserved_command_has_no_expectation() -> None:
    """Only `cqrs.Cancel` may be NOT_FOUND without an expected version."""
    members = json.loads(History([wish(0)]).commands[0].value or b"")
    cancel = json.dumps(members | {"type": "cqrs.Cancel", "data": {"id": "q"}}).encode()
    history = History([Wish(0, value=cancel)])
    assert b"NOT_FOUND" in (history.outcomes[0].value or b"")
    assert history.violations() == []
    history = History([wish(1, expectedversion="exists")])
    history.outcomes[0] = without(history.outcomes[0], "expected")
    assert "outcomes 0 is NOT_FOUND without an expected version" in described(history)
