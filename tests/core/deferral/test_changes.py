"""A batch sees its own changes of deferred entries at once, and limits are exact."""

import pytest
from msgspec.structs import replace

from cqrs_cli.core.deferral.deferrals import DeferralLimits, Deferrals
from cqrs_cli.core.deferral.document import structured_document
from cqrs_cli.core.deferral.entry import Deferral, read_deferral_key
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.messages.command import binary_attributes, read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.record import Headers, Record
from tests.core.deferral.batches import TIMESTAMP, decide, deferred_entry, reasons, record, verdicts
from tests.core.deferral.world import TOPIC

RESUBMITTED = Deferral(TOPIC, 0, "a", "x", 5, 0, TIMESTAMP, TIMESTAMP + 7, 1, "LATER", b"{}", 7, TOPIC)
FAR = "2999-01-01T00:00:00Z"


def deferrals_with(*entries: Deferral) -> Deferrals:
    table = DeferralTable(entries)
    return Deferrals(lambda: table, TOPIC, active=bool(entries))


def test_removed_entry_is_not_found() -> None:
    changes = deferrals_with(RESUBMITTED)
    assert changes.find_resubmitted_at(7) == changes.find_by_command_id("a", "x") == RESUBMITTED
    changes.remove_entry(RESUBMITTED)
    assert (changes.find_resubmitted_at(7), changes.find_by_command_id("a", "x")) == (None, None)


def test_added_entry_is_found() -> None:
    changes = deferrals_with()
    assert not changes.active
    changes.set_entry(RESUBMITTED)
    assert (changes.active, changes.find_by_command_id("a", "x")) == (True, RESUBMITTED)
    changes.set_entry(replace(RESUBMITTED, cancelled=True))
    assert changes.find_by_command_id("a", "x") == replace(RESUBMITTED, cancelled=True)


def test_resubmitted_entry_is_found_by_its_offset() -> None:
    changes = Deferrals(resubmitted={9: RESUBMITTED})
    assert (changes.active, changes.find_resubmitted_at(9), changes.find_resubmitted_at(7)) == (
        True,
        RESUBMITTED,
        None,
    )


def test_deferred_id_is_known_in_its_batch() -> None:
    assert reasons(decide(*(record(offset, notbefore=FAR) for offset in range(2)))) == [
        "NOT_YET",
        "duplicate",
    ]


def test_entry_deferred_again_has_no_offset() -> None:
    entry = deferred_entry(decide(record(notbefore=FAR, data={"after": 1})))
    resubmitted = replace(entry, resubmitted_offset=7, resubmitted_topic_id=TOPIC)
    resubmitted_record = Record(7, entry.due, b"a", resubmitted.resubmission_document("0/0"), [*HEADERS])
    decisions = decide(resubmitted_record, table=DeferralTable([resubmitted]))
    assert reasons(decisions) == ["LATER"]
    assert deferred_entry(decisions) == replace(
        entry, attempt=1, reason="LATER", due=deferred_entry(decisions).due
    )


def test_limits_are_exact() -> None:
    command = record(notbefore=FAR)
    entry = deferred_entry(decide(command))
    limits = DeferralLimits(
        command_bytes=len(entry.command) + len(b"a") + 1024, value_bytes=len(entry.value()) + 1024
    )
    assert reasons(decide(command, limits=limits)) == ["NOT_YET"]
    lower_limits = limits._replace(command_bytes=limits.command_bytes - 1)
    (verdict,) = verdicts(decide(command, limits=lower_limits))
    assert verdict["reason"] == "TOO_LARGE"
    assert f"need {limits.command_bytes} bytes with its key and attributes" in verdict["message"]
    assert reasons(decide(command, limits=limits._replace(value_bytes=limits.value_bytes - 1))) == [
        "TOO_LARGE"
    ]


@pytest.mark.parametrize(
    ("max_entries", "max_bytes", "count"), [(9, 4, 3), (9, 3, 2), (9, 0, 1), (2, 99, 2), (1, 99, 1)]
)
def test_due_entries_are_limited(max_entries: int, max_bytes: int, count: int) -> None:
    """The limit is a number of entries, or of bytes. The last entry may exceed the bytes."""
    changes = deferrals_with(
        *(replace(RESUBMITTED, offset=n, id=str(n), due=n, resubmitted_offset=None) for n in range(4))
    )
    assert [entry.due for entry in changes.due_entries(2, max_entries, max_bytes)] == list(range(count))


@pytest.mark.parametrize("key", [None, b"", b"3", b"/", b"T/", b"T/x", b"T/-1", "T/٣".encode()])
def test_invalid_entry_key_is_refused(key: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"^its key is "):
        read_deferral_key(key)


def test_offset_comes_last_in_a_key() -> None:
    assert read_deferral_key(b"a/12") == ("a", 12, None)
    assert read_deferral_key(b"a/3/12") == ("a", 12, 3)


@pytest.mark.parametrize("headers", [[*HEADERS], [("color", b"red"), *HEADERS]])
def test_deferredfrom_of_clients_is_dropped(headers: Headers) -> None:
    """In structured mode headers contain no attributes, even if their names look like attributes."""
    command_record = record(deferredfrom="0/9")
    command_record = Record(0, TIMESTAMP, command_record.key, command_record.value, headers)
    assert binary_attributes(command_record) is None
    assert b"deferredfrom" in (command_record.value or b"") and b"deferredfrom" not in structured_document(
        command_record, read_command(command_record)
    )


def test_entry_deferred_again_is_due_later() -> None:
    entry = replace(RESUBMITTED, resubmitted_offset=None)
    table = DeferralTable([entry])
    table.apply_changes({entry.key: replace(entry, due=TIMESTAMP + 9)})
    assert table.next_due() == TIMESTAMP + 9
