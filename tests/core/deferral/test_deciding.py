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
from tests.core.deferral.batches import TIMESTAMP, context, decide, deferred_entry, reasons, record, verdicts
from tests.core.deferral.world import TOPIC, WAY
from tests.proof.history import with_offset


@pytest.mark.parametrize(
    ("notbefore", "reason", "due"),
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
def test_notbefore_is_checked_at_once(notbefore: str, reason: str, due: str | None) -> None:
    decisions = decide(record(notbefore=notbefore))
    assert reasons(decisions) == [reason]
    assert verdicts(decisions)[0].get("due") == due
    assert bool(decisions.deferral_changes) == (reason == "NOT_YET")
    assert reason != "NOT_YET" or not verdicts(decisions)[0].get("message")
    assert not (decisions.dedup_entries and decisions.deferral_changes)


def test_invalid_commands_are_not_deferred() -> None:
    decisions = decide(
        record(notbefore="2999-01-01T00:00:00Z", data={"nope": 1}),
        record(1, "way.Stay", notbefore="2999-01-01T00:00:00Z"),
        record(2, notbefore="2999-01-01T00:00:00Z", expectedversion="07"),
    )
    assert reasons(decisions) == ["INVALID_PAYLOAD", "UNKNOWN_TYPE", "INVALID_EXPECTED_VERSION"]
    assert not decisions.deferral_changes


def test_number_of_attempts_is_limited() -> None:
    first = decide(record(data={"after": 1}), limits=DeferralLimits(attempts=2))
    entry = deferred_entry(first)
    results = reasons(first)
    for offset in (1, 2):
        resubmitted = replace(entry, resubmitted_offset=offset, resubmitted_topic_id=TOPIC)
        resubmitted_record = Record(
            offset, TIMESTAMP, b"a", resubmitted.resubmission_document("0/0"), [*HEADERS]
        )
        decisions = decide(
            resubmitted_record, table=DeferralTable([resubmitted]), limits=DeferralLimits(attempts=2)
        )
        results += reasons(decisions)
        if offset == 1:
            entry = deferred_entry(decisions)
            assert (entry.attempt, entry.resubmitted_offset, verdicts(decisions)[0]["deferredfrom"]) == (
                2,
                None,
                "0/0",
            )
    assert results == ["LATER", "LATER", "GAVE_UP"]
    assert decisions.deferral_changes == {f"{TOPIC}/0": None}


def test_command_too_large_to_resubmit_fails() -> None:
    limits = DeferralLimits(command_bytes=2000)
    large_record = record(notbefore="2999-01-01T00:00:00Z", correlationid="c" * 1000)
    decisions = decide(large_record, limits=limits)
    assert reasons(decisions) == ["TOO_LARGE"]
    assert len(decisions.dead_letters) == 1
    assert not decisions.deferral_changes


def test_attributes_come_from_the_entry() -> None:
    """Fingerprint and attempt come from the entry, because a rewritten document is still the same command."""
    entry = replace(
        deferred_entry(decide(record(notbefore="2999-01-01T00:00:00Z"))),
        resubmitted_offset=7,
        resubmitted_topic_id=TOPIC,
        fingerprint=5,
    )
    resubmitted_record = Record(7, entry.due, b"a", entry.resubmission_document("0/0"), [*HEADERS])
    (data,) = verdicts(decide(resubmitted_record, table=DeferralTable([entry])))
    assert (data["status"], data["fingerprint"], data["deferredfrom"]) == ("accepted", 5, "0/0")


def test_given_up_record_ends_the_entry() -> None:
    entry = replace(
        deferred_entry(decide(record(notbefore="2999-01-01T00:00:00Z"))),
        resubmitted_offset=7,
        resubmitted_topic_id=TOPIC,
    )
    table = DeferralTable([entry])
    deferrals = Deferrals(lambda: table, TOPIC, 0, active=True)
    context = BatchContext(
        0, lambda _: None, lambda *_: None, lambda: 0, force_failed=frozenset({7}), deferrals=deferrals
    )
    decisions = decide_batch(WAY, [Record(7, TIMESTAMP, b"a", b"x", [*HEADERS])], context)
    assert reasons(decisions) == ["TOO_LARGE"]
    assert verdicts(decisions)[0]["deferredfrom"] == "0/0"
    assert decisions.deferral_changes == {entry.key: None}


@pytest.mark.parametrize("after", [timedelta(0), timedelta(seconds=-1), 5, None])
def test_invalid_delays_are_refused(after: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="after"):
        cqrs.Later(after)


def test_delays_double_up_to_an_hour() -> None:
    delays = [
        next_attempt_time(timedelta(seconds=1), attempt, "x", TIMESTAMP) - TIMESTAMP
        for attempt in range(1, 60)
    ]
    assert delays == [
        next_attempt_time(timedelta(seconds=1), attempt, "x", TIMESTAMP) - TIMESTAMP
        for attempt in range(1, 60)
    ]
    for attempt, wait in enumerate(delays):
        assert (
            min(1000 * 2**attempt, MAX_RETRY_DELAY) <= wait <= 1.1 * min(1000 * 2**attempt, MAX_RETRY_DELAY)
        )
    assert next_attempt_time(timedelta(days=2), 9, "x", 0) >= 2 * 86_400_000
    assert next_attempt_time(timedelta.max, 9, "x", TIMESTAMP) == 253_402_300_799_999


def test_binary_command_is_resubmitted_as_json() -> None:
    headers = [
        *(("ce_specversion", b"1.0"), ("ce_id", b"x"), ("ce_source", b"/t"), ("ce_type", b"way.Go")),
        *(("ce_subject", b"a"), ("ce_expectedversion", b"7"), ("ce_notbefore", b"2999-01-01T00:00:00Z")),
        *(("ce_color", "grün".encode()), ("content-type", b"application/json")),
        ("ce_datacontenttype", b"application/json"),
    ]
    binary_record = Record(0, TIMESTAMP, b"a", b'{"after": 1}', [(name, value) for name, value in headers])
    binary_envelope = read_command(binary_record)
    document = structured_document(binary_record, binary_envelope)
    json_envelope = read_command(Record(0, TIMESTAMP, b"a", document, [*HEADERS]))
    assert bytes(json_envelope.data) == bytes(binary_envelope.data)
    assert json_envelope.expected_text() == binary_envelope.expected_text() == "7"
    assert fingerprint(json_envelope.type, json_envelope.data, "7") == fingerprint(
        binary_envelope.type, binary_envelope.data, "7"
    )
    assert json.loads(document)["color"] == "grün" and b"datacontenttype" not in document
    assert deferred_entry(decide(binary_record)).command == document


def test_entries_are_read_back_from_their_topic() -> None:
    entry = deferred_entry(decide(record(notbefore="2999-01-01T00:00:00Z")))
    inherited = replace(entry, partition=0)
    for variant in (
        entry,
        inherited,
        replace(entry, resubmitted_offset=9, resubmitted_topic_id="U", cancelled=True),
    ):
        assert read_deferral(variant.key.encode(), variant.value()) == variant
        for topic in (TOPIC, "U"):
            assert str(entry_key_of(variant.deferredfrom(topic, 3), topic, 3)) == variant.key


def test_inherited_entries_have_other_keys() -> None:
    """Two partitions have deferred a command at the same offset."""
    entry = deferred_entry(decide(record(notbefore="2999-01-01T00:00:00Z")))
    inherited = replace(entry, partition=0)
    assert entry.key != inherited.key
    assert (entry.deferredfrom(TOPIC, 3), inherited.deferredfrom(TOPIC, 3)) == ("3/0", "0/0")


def test_outcomes_name_an_inherited_command() -> None:
    """The outcomes go to a client that repeats the command, and to a client that cancels it."""
    entry = deferred_entry(decide(first := record(notbefore="2999-01-01T00:00:00Z")))
    table = DeferralTable([replace(entry, partition=1)])
    decisions = decide(first, record(1, "cqrs.Cancel", {"id": "x"}, id="y"), table=table)
    duplicate, cancelled = verdicts(decisions)
    assert duplicate["original"] == {
        "offset": 0,
        "status": "deferred",
        "version": 0,
        "events": 0,
        "partition": 1,
    }
    assert cancelled["target"] == {"id": "x", "offset": 0, "partition": 1}


def test_deferredfrom_of_clients_fails() -> None:
    decisions = decide(record(deferredfrom="0/0"), record(1, id="y"), record(2, id="y", deferredfrom="0/1"))
    assert reasons(decisions) == ["NOT_RELEASED", "accepted", "duplicate"]
    assert len(decisions.dead_letters) == 1


def test_id_of_a_deferred_command_is_known() -> None:
    table, first = DeferralTable(), record(data={"after": 1})
    table.apply_changes(decide(first).deferral_changes)
    duplicate, reused = verdicts(decide(with_offset(first, 1), record(2, data={"after": 2}), table=table))
    original = {"offset": 0, "status": "deferred", "version": 0, "events": 0}
    assert (duplicate["status"], duplicate["original"]) == ("duplicate", original)
    assert (reused["reason"], reused["original"]) == ("ID_REUSED", original)
    assert reused["message"] == "the id belongs to another command, deferred at offset 0"


def test_deferred_commands_count_as_bytes() -> None:
    """Rejected commands do not count."""
    records = [record(offset, data={"after": 1}, id=str(offset)) for offset in range(2)]
    wrong_record = record(2, id="wrong", expectedversion=7)
    batch = Batch(WAY, context(DeferralTable()))
    assert reasons(batch.decide_piece([*records, wrong_record])) == ["LATER", "LATER", "VERSION_CONFLICT"]
    assert batch.event_bytes == sum(len(record.value or b"") for record in records)


def test_later_entry_keeps_the_id() -> None:
    """The previous command with this id has ended, and its entry is deleted afterwards."""
    table = DeferralTable()
    first = deferred_entry(decide(record(data={"after": 1})))
    later_entry = replace(first, offset=9)
    table.apply_changes({first.key: first, later_entry.key: later_entry})
    table.apply_changes({first.key: None})
    assert table.find_by_command_id("a", "x") == later_entry
    table.apply_changes({later_entry.key: None})
    assert table.find_by_command_id("a", "x") is None


def test_request_may_be_deferred() -> None:
    """The deferred request then ends its own entry, and cancels the other command."""
    deferred = deferred_entry(decide(record(data={"after": 1})))
    request = record(1, "cqrs.Cancel", {"id": "x"}, id="later", notbefore="2999-01-01T00:00:00Z")
    entry = replace(deferred_entry(decide(request)), resubmitted_offset=7, resubmitted_topic_id=TOPIC)
    resubmitted_record = Record(7, entry.due, b"a", entry.resubmission_document("0/1"), [*HEADERS])
    decisions = decide(resubmitted_record, table=DeferralTable([deferred, entry]))
    (data,) = verdicts(decisions)
    assert (data["status"], data["deferredfrom"], data["target"]) == (
        "unchanged",
        "0/1",
        {"id": "x", "offset": 0},
    )
    assert decisions.deferral_changes[entry.key] is None


@pytest.mark.parametrize(
    ("early_ms", "reason"), [(60_000, "accepted"), (60_001, "NOT_YET"), (10**12, "NOT_YET")]
)
def test_early_resubmission_is_deferred_again(early_ms: int, reason: str) -> None:
    """The broker's timestamp of the resubmitted record counts. Attempt, due time and reason stay."""
    entry = deferred_entry(decide(record(notbefore="2999-01-01T00:00:00Z")))
    resubmitted = replace(entry, resubmitted_offset=7, resubmitted_topic_id=TOPIC)
    resubmitted_record = Record(
        7, entry.due - early_ms, b"a", resubmitted.resubmission_document("0/0"), [*HEADERS]
    )
    decisions = decide(resubmitted_record, table=DeferralTable([resubmitted]))
    assert reasons(decisions) == [reason]
    assert decisions.deferral_changes == {entry.key: entry if reason == "NOT_YET" else None}
    assert verdicts(decisions)[0]["deferredfrom"] == "0/0"


@pytest.mark.parametrize(
    ("request_type", "reason"), [("cqrs.Cancel", "CANCELLED"), ("cqrs.Release", "accepted")]
)
def test_request_ends_the_deferral(request_type: str, reason: str) -> None:
    """The request works although the command was already resubmitted, too early."""
    entry = deferred_entry(decide(record(notbefore="2999-01-01T00:00:00Z")))
    resubmitted = replace(entry, resubmitted_offset=7, resubmitted_topic_id=TOPIC)
    resubmitted_record = Record(7, TIMESTAMP, b"a", resubmitted.resubmission_document("0/0"), [*HEADERS])
    decisions = decide(
        record(6, request_type, {"id": "x"}, id="r"), resubmitted_record, table=DeferralTable([resubmitted])
    )
    assert reasons(decisions) == ["unchanged", reason]
