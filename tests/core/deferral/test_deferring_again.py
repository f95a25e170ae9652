"""An entry is deferred again, released and cancelled, and its outcome explains it."""

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

AT = 1_000_000
RECORD = Record(0, AT, b"a", command("way.Go", "a", "x").value, [*HEADERS])
PARKED = Deferral(TOPIC, 0, "a", "x", 5, 0, AT, AT + 7, 1, "LATER", b"{}")


def deferrals(*entries: Deferral, attempts: int = 9) -> Deferrals:
    table = DeferralTable(entries)
    return Deferrals(lambda: table, TOPIC, 0, DeferralLimits(attempts=attempts), bool(entries))


def put_off(later: cqrs.Later, entry: Deferral | None = None) -> CheckFailed:
    """Defer a command with at most two attempts, and return the error."""
    envelope = read_command(RECORD)
    return deferrals(attempts=2).defer_for_later(RECORD, envelope, entry, 5, 0, later)


def test_wait_depends_on_id_and_attempt() -> None:
    later = cqrs.Later(timedelta(minutes=1), "closed")
    for entry, attempt in ((None, 1), (PARKED, 2)):
        refused = put_off(later, entry)
        due = next_attempt_time(later.after, attempt, "x", AT)
        assert (refused.reason, refused.message) == (Reason.LATER, "closed")
        assert refused.outcome_fields == {"due": rfc3339(due), "attempt": attempt}


@pytest.mark.parametrize(("reason", "said"), [("closed", "put off 2 times: closed"), ("", "put off 2 times")])
def test_giving_up_says_why(reason: str, said: str) -> None:
    refused = put_off(cqrs.Later(reason=reason), replace(PARKED, attempt=2))
    assert (refused.reason, str(refused)) == (Reason.GAVE_UP, said)


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
def test_wait_is_the_same_everywhere(after: timedelta, attempt: int, command_id: str, due: int) -> None:
    """Owners of all versions compute the same time. Otherwise each would resubmit at another time."""
    assert next_attempt_time(after, attempt, command_id, 0) == due
    assert due <= 1.1 * MAX_RETRY_DELAY


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("request_", [Cancel("x"), Release("x")])
def test_request_makes_a_command_due(request_: Any, cancelled: bool) -> None:
    """An entry that is resubmitted already keeps its offset, and is not deferred again."""
    for entry in (PARKED, replace(PARKED, resubmitted_offset=3, resubmitted_topic=TOPIC)):
        table = deferrals(replace(entry, cancelled=cancelled))
        target = table.cancel_or_release("a", "r", request_)
        assert (target.id, target.offset) == ("x", 0)
        ends = cancelled or isinstance(request_, Cancel)
        assert table.changed_entries == {PARKED.key: replace(entry, due=0, cancelled=ends)}


@pytest.mark.parametrize("kind", [Cancel, Release])
@pytest.mark.parametrize(("subject", "mine", "wanted"), [("a", "r", "y"), ("b", "r", "x"), ("a", "x", "x")])
def test_request_needs_its_command(subject: str, mine: str, wanted: str, kind: Any) -> None:
    """A request with the id of its own target is refused: once decided, the request no longer waits."""
    with pytest.raises(CheckFailed, match=f"no command '{wanted}' of '{subject}' is deferred") as refusal:
        deferrals(PARKED).cancel_or_release(subject, mine, kind(wanted))
    assert refusal.value.reason is Reason.NOT_FOUND
