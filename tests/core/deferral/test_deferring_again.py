"""A deferred command is deferred again, released or cancelled, and its outcome contains the reason."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import cqrs_cli as cqrs
from cqrs_cli.core.deferral.deferrals import DeferralLimits, Deferrals
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.deferral.later import MAX_RETRY_DELAY, next_attempt_time
from cqrs_cli.core.deferral.requests import Cancel, Release
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.reasons import CheckFailed, Reason
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from tests.core.deferral.world import TOPIC
from tests.support.commands import command

TIMESTAMP = 1_000_000
RECORD = Record(0, TIMESTAMP, b"a", command("way.Go", "a", "x").value, [*HEADERS])
ENTRY = Deferral(TOPIC, 0, "a", "x", 5, 0, TIMESTAMP, TIMESTAMP + 7, 1, "LATER", b"{}")


def deferrals(*entries: Deferral, attempts: int = 9) -> Deferrals:
    table = DeferralTable(entries)
    return Deferrals(lambda: table, TOPIC, 0, DeferralLimits(attempts=attempts), bool(entries))


def defer_error(exception: cqrs.Later, entry: Deferral | None = None) -> CheckFailed:
    """Return the error with which a command is deferred, or given up after two attempts."""
    envelope = read_command(RECORD)
    return deferrals(attempts=2).defer_for_later(RECORD, envelope, entry, 5, 0, exception)


def test_delay_depends_on_id_and_attempt() -> None:
    exception = cqrs.Later(timedelta(minutes=1), "closed")
    for entry, attempt in ((None, 1), (ENTRY, 2)):
        failed_check = defer_error(exception, entry)
        due = next_attempt_time(exception.after, attempt, "x", TIMESTAMP)
        assert (failed_check.reason, failed_check.message) == (Reason.LATER, "closed")
        assert failed_check.outcome_fields == {"due": rfc3339(due), "attempt": attempt}


@pytest.mark.parametrize(
    ("reason", "message"), [("closed", "put off 2 times: closed"), ("", "put off 2 times")]
)
def test_giving_up_has_the_reason(reason: str, message: str) -> None:
    failed_check = defer_error(cqrs.Later(reason=reason), replace(ENTRY, attempt=2))
    assert (failed_check.reason, str(failed_check)) == (Reason.GAVE_UP, message)


def test_reason_is_the_text_of_later() -> None:
    assert (cqrs.Later().reason, cqrs.Later(reason="closed").reason) == ("", "closed")
    assert (str(cqrs.Later()), str(cqrs.Later(reason="closed"))) == ("", "closed")


@pytest.mark.parametrize(
    ("after", "attempt", "command_id", "due"),
    [
        (timedelta(hours=1), 1, "x", 3_685_035),
        (timedelta(hours=1), 2, "x", 3_787_503),
        (timedelta(hours=1), 1, "y", 3_785_432),
        (timedelta(hours=1), 1, "\ud800", 3_675_851),
        (timedelta(milliseconds=1), 1, "x", 1),
        (timedelta(microseconds=1), 1, "x", 1),
    ],
)
def test_delay_must_not_change(after: timedelta, attempt: int, command_id: str, due: int) -> None:
    """Owners of all releases must compute the same time for a command: otherwise an upgrade would move it."""
    assert next_attempt_time(after, attempt, command_id, 0) == due
    assert due <= 1.1 * MAX_RETRY_DELAY


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("request_", [Cancel("x"), Release("x")])
def test_request_makes_a_command_due(request_: Any, cancelled: bool) -> None:
    """The request sets the due time of the entry to 0. It keeps the offset of an entry that was already resubmitted."""
    for entry in (ENTRY, replace(ENTRY, resubmitted_offset=3, resubmitted_topic_id=TOPIC)):
        changes = deferrals(replace(entry, cancelled=cancelled))
        target = changes.cancel_or_release("a", "r", request_)
        assert (target.id, target.offset) == ("x", 0)
        ends = cancelled or isinstance(request_, Cancel)
        assert changes.changed_entries == {ENTRY.key: replace(entry, due=0, cancelled=ends)}


@pytest.mark.parametrize("request_class", [Cancel, Release])
@pytest.mark.parametrize(
    ("subject", "own_id", "target_id"), [("a", "r", "y"), ("b", "r", "x"), ("a", "x", "x")]
)
def test_request_needs_its_command(subject: str, own_id: str, target_id: str, request_class: Any) -> None:
    """A request with the id of its own target is refused: once decided, the request no longer waits."""
    with pytest.raises(CheckFailed, match=f"no command '{target_id}' of '{subject}' is deferred") as raised:
        deferrals(ENTRY).cancel_or_release(subject, own_id, request_class(target_id))
    assert raised.value.reason is Reason.NOT_FOUND
