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
from tests.core.deferral.batches import AT, decided, parked, record, result, verdicts
from tests.core.deferral.world import TOPIC

SAID = Deferral(TOPIC, 0, "a", "x", 5, 0, AT, AT + 7, 1, "LATER", b"{}", 7, TOPIC)
FAR = "2999-01-01T00:00:00Z"


def over(*entries: Deferral) -> Deferrals:
    table = DeferralTable(entries)
    return Deferrals(lambda: table, TOPIC, active=bool(entries))


def test_ended_entry_is_gone_at_once() -> None:
    changes = over(SAID)
    assert changes.find_resubmitted_at(7) == changes.find_by_command_id("a", "x") == SAID
    changes.remove_entry(SAID)
    assert (changes.find_resubmitted_at(7), changes.find_by_command_id("a", "x")) == (None, None)


def test_entry_put_is_there_at_once() -> None:
    changes = over()
    assert not changes.active
    changes.set_entry(SAID)
    assert (changes.active, changes.find_by_command_id("a", "x")) == (True, SAID)
    changes.set_entry(replace(SAID, cancelled=True))
    assert changes.find_by_command_id("a", "x") == replace(SAID, cancelled=True)


def test_told_entry_stands_at_its_offset() -> None:
    changes = Deferrals(resubmitted={9: SAID})
    assert (changes.active, changes.find_resubmitted_at(9), changes.find_resubmitted_at(7)) == (
        True,
        SAID,
        None,
    )


def test_id_waits_from_this_batch_on() -> None:
    assert result(decided(*(record(offset, notbefore=FAR) for offset in range(2)))) == [
        "NOT_YET",
        "duplicate",
    ]


def test_put_off_again_it_stands_nowhere() -> None:
    entry = parked(decided(record(notbefore=FAR, data={"after": 1})))
    said = replace(entry, resubmitted_offset=7, resubmitted_topic=TOPIC)
    again = Record(7, entry.due, b"a", said.resubmission_document("0/0"), [*HEADERS])
    done = decided(again, table=DeferralTable([said]))
    assert result(done) == ["LATER"]
    assert parked(done) == replace(entry, attempt=1, reason="LATER", due=parked(done).due)


def test_room_is_exact() -> None:
    command = record(notbefore=FAR)
    entry = parked(decided(command))
    most = DeferralLimits(
        command_bytes=len(entry.command) + len(b"a") + 1024, value_bytes=len(entry.value()) + 1024
    )
    assert result(decided(command, limits=most)) == ["NOT_YET"]
    short = most._replace(command_bytes=most.command_bytes - 1)
    (verdict,) = verdicts(decided(command, limits=short))
    assert verdict["reason"] == "TOO_LARGE"
    assert f"be {len(entry.command)} bytes: the limit is {short.command_bytes}" in verdict["message"]
    assert result(decided(command, limits=most._replace(value_bytes=most.value_bytes - 1))) == ["TOO_LARGE"]


@pytest.mark.parametrize(
    ("most", "most_bytes", "count"), [(9, 4, 3), (9, 3, 2), (9, 0, 1), (2, 99, 2), (1, 99, 1)]
)
def test_due_entries_are_limited(most: int, most_bytes: int, count: int) -> None:
    """The limit is a number of entries, or of bytes. The last entry may exceed the bytes."""
    changes = over(*(replace(SAID, offset=n, id=str(n), due=n, resubmitted_offset=None) for n in range(4)))
    assert [one.due for one in changes.due_entries(2, most, most_bytes)] == list(range(count))


@pytest.mark.parametrize("key", [None, b"", b"3", b"/", b"T/", b"T/x", b"T/-1", "T/٣".encode()])
def test_key_of_no_entry_is_refused(key: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"^its key is "):
        read_deferral_key(key)


def test_offset_comes_last_in_a_key() -> None:
    assert read_deferral_key(b"a/12") == ("a", 12, None)
    assert read_deferral_key(b"a/3/12") == ("a", 12, 3)


@pytest.mark.parametrize("headers", [[*HEADERS], [("color", b"red"), *HEADERS]])
def test_clients_word_is_not_said_again(headers: Headers) -> None:
    """In structured mode headers contain no attributes, even if their names look like attributes."""
    sent = record(deferredfrom="0/9")
    sent = Record(0, AT, sent.key, sent.value, headers)
    assert binary_attributes(sent) is None
    assert b"deferredfrom" in (sent.value or b"") and b"deferredfrom" not in structured_document(
        sent, read_command(sent)
    )


def test_entry_put_off_is_due_later() -> None:
    entry = replace(SAID, resubmitted_offset=None)
    table = DeferralTable([entry])
    table.apply_changes({entry.key: replace(entry, due=AT + 9)})
    assert table.next_due() == AT + 9
