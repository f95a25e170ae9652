"""Deciding with deferral: bad input has a clear outcome, and the copies that clients make are not decided."""

import json
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

import cqrs_cli as cqrs
from cqrs_cli.core.context import BatchContext
from cqrs_cli.core.decide import Batch, decide_batch
from cqrs_cli.core.deferral.deferrals import DeferralLimits, Deferrals
from cqrs_cli.core.deferral.document import structured_document
from cqrs_cli.core.deferral.entry import entry_key_of, read_deferral
from cqrs_cli.core.deferral.later import MAX_RETRY_DELAY, next_attempt_time
from cqrs_cli.core.deferral.table import DeferralTable
from cqrs_cli.core.messages.command import read_command
from cqrs_cli.core.messages.event import HEADERS
from cqrs_cli.core.messages.fingerprint import fingerprint
from cqrs_cli.core.messages.record import Record
from tests.core.deferral.batches import AT, context, decided, parked, record, result, verdicts
from tests.core.deferral.world import TOPIC, WAY
from tests.proof.history import with_offset


@pytest.mark.parametrize(
    ("notbefore", "found", "due"),
    [
        ("9999-12-31T23:59:59Z", "NOT_YET", "9999-12-31T23:59:59.000Z"),
        ("9999-12-31T23:59:59-23:59", "NOT_YET", "9999-12-31T23:59:59.999Z"),
        ("0001-01-01T00:00:00+00:00", "accepted", None),
        ("1970-01-01T00:16:40Z", "accepted", None),
        ("1970-01-01T00:16:40.001Z", "NOT_YET", "1970-01-01T00:16:40.001Z"),
        ("2999-01-01T00:00:00", "INVALID_ENVELOPE", None),
        ("tomorrow", "INVALID_ENVELOPE", None),
    ],
)
def test_notbefore_is_judged_at_once(notbefore: str, found: str, due: str | None) -> None:
    done = decided(record(notbefore=notbefore))
    assert result(done) == [found]
    assert verdicts(done)[0].get("due") == due
    assert bool(done.deferral_changes) == (found == "NOT_YET")
    assert found != "NOT_YET" or not verdicts(done)[0].get("message")
    assert not (done.dedup_entries and done.deferral_changes)


def test_form_is_judged_before_waiting() -> None:
    done = decided(
        record(notbefore="2999-01-01T00:00:00Z", data={"nope": 1}),
        record(1, "way.Stay", notbefore="2999-01-01T00:00:00Z"),
        record(2, notbefore="2999-01-01T00:00:00Z", expectedversion="07"),
    )
    assert result(done) == ["INVALID_PAYLOAD", "UNKNOWN_TYPE", "INVALID_EXPECTED_VERSION"]
    assert not done.deferral_changes


def test_later_gives_up_in_the_end() -> None:
    first = decided(record(data={"after": 1}), limits=DeferralLimits(attempts=2))
    entry = parked(first)
    results = result(first)
    for offset in (1, 2):
        said = replace(entry, resubmitted_offset=offset, resubmitted_topic=TOPIC)
        again = Record(offset, AT, b"a", said.resubmission_document("0/0"), [*HEADERS])
        done = decided(again, table=DeferralTable([said]), limits=DeferralLimits(attempts=2))
        results += result(done)
        if offset == 1:
            entry = parked(done)
            assert (entry.attempt, entry.resubmitted_offset, verdicts(done)[0]["deferredfrom"]) == (
                2,
                None,
                "0/0",
            )
    assert results == ["LATER", "LATER", "GAVE_UP"]
    assert done.deferral_changes == {f"{TOPIC}/0": None}


def test_too_large_to_say_again() -> None:
    limits = DeferralLimits(command_bytes=2000)
    wide = record(notbefore="2999-01-01T00:00:00Z", correlationid="c" * 1000)
    done = decided(wide, limits=limits)
    assert result(done) == ["TOO_LARGE"]
    assert len(done.dead_letters) == 1
    assert not done.deferral_changes


def test_entry_decides_whatever_the_record_says() -> None:
    """Fingerprint and attempt come from the entry, because a rewritten document is still the same command."""
    entry = replace(
        parked(decided(record(notbefore="2999-01-01T00:00:00Z"))),
        resubmitted_offset=7,
        resubmitted_topic=TOPIC,
        fingerprint=5,
    )
    again = Record(7, entry.due, b"a", entry.resubmission_document("0/0"), [*HEADERS])
    (data,) = verdicts(decided(again, table=DeferralTable([entry])))
    assert (data["status"], data["fingerprint"], data["deferredfrom"]) == ("accepted", 5, "0/0")


def test_given_up_record_ends_the_entry() -> None:
    entry = replace(
        parked(decided(record(notbefore="2999-01-01T00:00:00Z"))),
        resubmitted_offset=7,
        resubmitted_topic=TOPIC,
    )
    table = DeferralTable([entry])
    deferrals = Deferrals(lambda: table, TOPIC, 0, active=True)
    context = BatchContext(
        0, lambda _: None, lambda *_: None, lambda: 0, given_up_offsets=frozenset({7}), deferrals=deferrals
    )
    done = decide_batch(WAY, [Record(7, AT, b"a", b"x", [*HEADERS])], context)
    assert result(done) == ["TOO_LARGE"]
    assert verdicts(done)[0]["deferredfrom"] == "0/0"
    assert done.deferral_changes == {entry.key: None}


@pytest.mark.parametrize("after", [timedelta(0), timedelta(seconds=-1), 5, None])
def test_bad_waits_are_refused(after: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="after"):
        cqrs.Later(after)


def test_waits_double_up_to_an_hour() -> None:
    waits = [next_attempt_time(timedelta(seconds=1), attempt, "x", AT) - AT for attempt in range(1, 60)]
    assert waits == [
        next_attempt_time(timedelta(seconds=1), attempt, "x", AT) - AT for attempt in range(1, 60)
    ]
    for attempt, wait in enumerate(waits):
        assert (
            min(1000 * 2**attempt, MAX_RETRY_DELAY) <= wait <= 1.1 * min(1000 * 2**attempt, MAX_RETRY_DELAY)
        )
    assert next_attempt_time(timedelta(days=2), 9, "x", 0) >= 2 * 86_400_000
    assert next_attempt_time(timedelta.max, 9, "x", AT) == 253_402_300_799_999


def test_binary_command_is_said_in_json() -> None:
    headers = [
        *(("ce_specversion", b"1.0"), ("ce_id", b"x"), ("ce_source", b"/t"), ("ce_type", b"way.Go")),
        *(("ce_subject", b"a"), ("ce_expectedversion", b"7"), ("ce_notbefore", b"2999-01-01T00:00:00Z")),
        *(("ce_color", "grün".encode()), ("content-type", b"application/json")),
        ("ce_datacontenttype", b"application/json"),
    ]
    binary = Record(0, AT, b"a", b'{"after": 1}', [(name, value) for name, value in headers])
    before = read_command(binary)
    written = structured_document(binary, before)
    after = read_command(Record(0, AT, b"a", written, [*HEADERS]))
    assert bytes(after.data) == bytes(before.data)
    assert after.expected_text() == before.expected_text() == "7"
    assert fingerprint(after.type, after.data, "7") == fingerprint(before.type, before.data, "7")
    assert json.loads(written)["color"] == "grün" and b"datacontenttype" not in written
    assert parked(decided(binary)).command == written


def test_entries_survive_their_topic() -> None:
    entry = parked(decided(record(notbefore="2999-01-01T00:00:00Z")))
    inherited = replace(entry, partition=0)
    for one in (
        entry,
        inherited,
        replace(entry, resubmitted_offset=9, resubmitted_topic="U", cancelled=True),
    ):
        assert read_deferral(one.key.encode(), one.value()) == one
        for topic in (TOPIC, "U"):
            assert str(entry_key_of(one.deferredfrom(topic, 3), topic, 3)) == one.key


def test_inherited_entries_share_no_key() -> None:
    """Two partitions have deferred a command at the same offset."""
    entry = parked(decided(record(notbefore="2999-01-01T00:00:00Z")))
    inherited = replace(entry, partition=0)
    assert entry.key != inherited.key
    assert (entry.deferredfrom(TOPIC, 3), inherited.deferredfrom(TOPIC, 3)) == ("3/0", "0/0")


def test_outcomes_name_an_inherited_command() -> None:
    """The outcomes go to a client that repeats the command, and to a client that cancels it."""
    entry = parked(decided(first := record(notbefore="2999-01-01T00:00:00Z")))
    table = DeferralTable([replace(entry, partition=1)])
    done = decided(first, record(1, "cqrs.Cancel", {"id": "x"}, id="y"), table=table)
    again, cancelled = verdicts(done)
    assert again["original"] == {"offset": 0, "status": "deferred", "version": 0, "events": 0, "partition": 1}
    assert cancelled["target"] == {"id": "x", "offset": 0, "partition": 1}


def test_clients_word_releases_nothing() -> None:
    done = decided(record(deferredfrom="0/0"), record(1, id="y"), record(2, id="y", deferredfrom="0/1"))
    assert result(done) == ["NOT_RELEASED", "accepted", "duplicate"]
    assert len(done.dead_letters) == 1


def test_id_of_a_waiting_command_is_taken() -> None:
    table, first = DeferralTable(), record(data={"after": 1})
    table.apply_changes(decided(first).deferral_changes)
    again, other = verdicts(decided(with_offset(first, 1), record(2, data={"after": 2}), table=table))
    original = {"offset": 0, "status": "deferred", "version": 0, "events": 0}
    assert (again["status"], again["original"]) == ("duplicate", original)
    assert (other["reason"], other["original"]) == ("ID_REUSED", original)
    assert other["message"] == "the id is of another command, deferred at offset 0"


def test_waiting_commands_count_as_bytes() -> None:
    """Rejected commands do not count."""
    records = [record(at, data={"after": 1}, id=str(at)) for at in range(2)]
    wrong = record(2, id="wrong", expectedversion=7)
    batch = Batch(WAY, context(DeferralTable()))
    assert result(batch.decide_piece([*records, wrong])) == ["LATER", "LATER", "VERSION_CONFLICT"]
    assert batch.event_bytes == sum(len(one.value or b"") for one in records)


def test_later_entry_keeps_the_id() -> None:
    """The previous command with this id has ended, and its entry is deleted afterwards."""
    table = DeferralTable()
    first = parked(decided(record(data={"after": 1})))
    later = replace(first, offset=9)
    table.apply_changes({first.key: first, later.key: later})
    table.apply_changes({first.key: None})
    assert table.find_by_command_id("a", "x") == later
    table.apply_changes({later.key: None})
    assert table.find_by_command_id("a", "x") is None


def test_request_may_wait_itself() -> None:
    """The deferred request then ends its own entry, and cancels the other one."""
    waiting = parked(decided(record(data={"after": 1})))
    request = record(1, "cqrs.Cancel", {"id": "x"}, id="later", notbefore="2999-01-01T00:00:00Z")
    entry = replace(parked(decided(request)), resubmitted_offset=7, resubmitted_topic=TOPIC)
    again = Record(7, entry.due, b"a", entry.resubmission_document("0/1"), [*HEADERS])
    done = decided(again, table=DeferralTable([waiting, entry]))
    (data,) = verdicts(done)
    assert (data["status"], data["deferredfrom"], data["target"]) == (
        "unchanged",
        "0/1",
        {"id": "x", "offset": 0},
    )
    assert done.deferral_changes[entry.key] is None


@pytest.mark.parametrize(("early", "found"), [(60_000, "accepted"), (60_001, "NOT_YET"), (10**12, "NOT_YET")])
def test_said_again_too_early_it_waits_on(early: int, found: str) -> None:
    """The broker's timestamp of the resubmitted record counts. Attempt, due time and reason stay."""
    entry = parked(decided(record(notbefore="2999-01-01T00:00:00Z")))
    said = replace(entry, resubmitted_offset=7, resubmitted_topic=TOPIC)
    again = Record(7, entry.due - early, b"a", said.resubmission_document("0/0"), [*HEADERS])
    done = decided(again, table=DeferralTable([said]))
    assert result(done) == [found]
    assert done.deferral_changes == {entry.key: entry if found == "NOT_YET" else None}
    assert verdicts(done)[0]["deferredfrom"] == "0/0"


@pytest.mark.parametrize(("request_", "found"), [("cqrs.Cancel", "CANCELLED"), ("cqrs.Release", "accepted")])
def test_request_ends_the_wait(request_: str, found: str) -> None:
    """The request works although the command is resubmitted already, too early."""
    entry = parked(decided(record(notbefore="2999-01-01T00:00:00Z")))
    said = replace(entry, resubmitted_offset=7, resubmitted_topic=TOPIC)
    again = Record(7, AT, b"a", said.resubmission_document("0/0"), [*HEADERS])
    done = decided(record(6, request_, {"id": "x"}, id="r"), again, table=DeferralTable([said]))
    assert result(done) == ["unchanged", found]
