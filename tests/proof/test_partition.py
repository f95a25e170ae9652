"""A clean history is silent, and each fault in it is named with its place."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof import findings
from cqrs_cli.proof.scope import Loss
from tests.proof.history import (
    NOW,
    WINDOW,
    History,
    Wish,
    appended,
    drawn,
    moved,
    swapped,
    wish,
    with_value,
)
from tests.support.rewriting import edited

seeds = st.integers(0, 10_000)


@pytest.fixture
def history() -> History:
    """Nine commands at offsets 0 1 2 4 5 6 8 9 10, of which four are accepted: at 0, 1, 6 and 10."""
    return History(
        [
            wish(2, expectedversion="none"),  # events 0 and 1
            wish(1, "b"),  # event 2
            wish(0),  # unchanged
            wish(-1),  # rejected
            wish(2, expectedversion="7"),  # a conflict
            wish(3, "a", "x", expectedversion=2),  # events 4, 5 and 6
            wish(3, "a", "x", expectedversion=2),  # a duplicate
            Wish(0, value=b"\xff"),  # failed
            wish(1, "b", expectedversion="exists"),  # event 8
        ]
    )


def places(history: History, **how: Any) -> list[tuple[str, int]]:
    return [(kind, offset) for kind, offset, _ in history.violations(**how)]


def only(history: History, **how: Any) -> str:
    """The one violation, as it is read."""
    ((kind, offset, what),) = history.violations(**how)
    return f"{kind} {offset} {what}"


def test_a_clean_history_is_silent_and_counted(history: History) -> None:
    report = history.prove()
    assert report[:5] == (9, 9, 7, 1, 2)
    assert report[-3:] == (0, (), 0)


@pytest.mark.pins("verifiable")
@given(seeds)
def test_every_clean_history_is_silent(seed: int) -> None:
    assert History(drawn(seed)).violations() == []


def test_nothing_at_all_is_clean() -> None:
    assert History([]).violations(seen=(None, None)) == []


def test_a_missing_outcome_is_named_by_its_command(history: History) -> None:
    del history.outcomes[3]
    assert only(history) == "commands 4 has no outcome"


def test_the_events_of_a_command_without_outcome_are_orphans(history: History) -> None:
    del history.outcomes[1]
    assert history.violations() == [
        ("commands", 1, "has no outcome"),
        ("events", 2, "is of command 1, which has no outcome"),
    ]


def test_a_double_outcome(history: History) -> None:
    at = appended(history.outcomes, history.outcomes[2])
    assert only(history) == f"outcomes {at} is of command 2, as is the record at offset 2"


def test_an_outcome_of_a_command_at_or_above_the_committed_offset(history: History) -> None:
    history.committed = 10
    assert ("outcomes", 10) in places(history)
    assert "only those below 10 are decided" in history.violations()[-1].what


def test_an_outcome_of_no_command(history: History) -> None:
    del history.commands[2]
    assert only(history) == "outcomes 2 is of command 2, which does not exist"


def test_outcomes_in_another_order(history: History) -> None:
    swapped(history.outcomes, 2, 3)
    assert only(history) == "outcomes 4 is of command 2, and comes after command 4"


@pytest.mark.parametrize(("number", "at"), [(2, 1), (6, 10)])
def test_a_dropped_event_leaves_its_command_without(history: History, number: int, at: int) -> None:
    del history.events[number]
    assert only(history) == f"outcomes {at} is of command {at}, whose events are missing: 1"


@pytest.mark.parametrize(
    ("number", "said"), [(3, "event 1/6/1, and event 0"), (4, "event 1/6/2, and event 1")]
)
def test_a_dropped_event_tears_its_command(history: History, number: int, said: str) -> None:
    after = history.events[number + 1].offset
    del history.events[number]
    assert only(history) == f"events {after} is {said} is not before it"


def test_a_command_torn_at_its_end(history: History) -> None:
    del history.events[5]
    assert only(history) == ("events 4 is of command 6, whose events are missing from event 2 of 3 on")


def test_a_doubled_event_beside_the_first(history: History) -> None:
    history.events.insert(2, moved(history.events[1], 1))
    assert only(history) == "events 1 repeats event 1/0/1"


def test_a_doubled_event_far_from_the_first(history: History) -> None:
    at = appended(history.events, history.events[2])
    assert only(history) == f"events {at} is of command 1, as is the record at offset 2"


def test_two_events_of_one_command_swapped(history: History) -> None:
    swapped(history.events, 4, 5)
    assert ("events", 5) in places(history)


def test_two_events_of_different_commands_swapped(history: History) -> None:
    swapped(history.events, 2, 6)
    assert ("events", 8) in places(history)


def test_events_of_a_command_with_another_between(history: History) -> None:
    swapped(history.events, 2, 1)
    assert {kind for kind, _ in places(history)} == {"events"}


def test_a_forged_version_of_an_event(history: History) -> None:
    history.events[6] = edited(history.events[6], aggregateversion=9)
    assert only(history) == "events 8 leads 'b' to version 9, its command's outcome to 2"


def test_a_forged_version_of_event_and_outcome(history: History) -> None:
    history.events[6] = edited(history.events[6], aggregateversion=9)
    history.outcomes[8] = edited(history.outcomes[8], {"version": 9})
    assert only(history) == ("events 8 goes on from version 8 of 'b', which is at 1: versions are missing")


def test_a_version_that_is_there_twice(history: History) -> None:
    history.events[6] = edited(history.events[6], aggregateversion=1)
    history.outcomes[8] = edited(history.outcomes[8], {"version": 1}, **{})
    said = history.violations()
    assert said[0] == ("events", 8, "goes on from version 0 of 'b', which is at 1: a version is there twice")


def test_a_forged_version_of_an_outcome_without_events(history: History) -> None:
    history.outcomes[2] = edited(history.outcomes[2], {"version": 7})
    assert only(history) == "outcomes 2 says that 'a' is at version 7, which is at 2"


def test_an_orphan_event(history: History) -> None:
    orphan = edited(history.events[6], id="1/11/0", aggregateversion=3)
    at = appended(history.events, orphan)
    assert only(history) == f"events {at} is of command 11, which is not decided yet"
    assert only(history, seen=(20, 20)) == f"events {at} is of command 11, which has no outcome"


def test_an_event_of_a_command_that_was_not_accepted(history: History) -> None:
    history.outcomes[1] = edited(history.outcomes[1], {"status": "unchanged", "events": 0})
    assert ("events", 2, "is of command 1, whose outcome is unchanged") in history.violations()


def test_an_outcome_with_a_wrong_count(history: History) -> None:
    history.outcomes[5] = edited(history.outcomes[5], {"events": 2})
    assert "events 4 is one of 3 events of command 6, whose outcome says 2" in said(history)


def test_an_event_with_a_wrong_count(history: History) -> None:
    history.events[6] = edited(history.events[6], eventcount=2)
    assert ("events", 8) in places(history)


def test_events_that_announce_different_counts(history: History) -> None:
    history.events[4] = edited(history.events[4], eventcount=4)
    assert only(history) == "events 5 differs from the first event of command 6"


def said(history: History, **how: Any) -> list[str]:
    return [f"{kind} {offset} {what}" for kind, offset, what in history.violations(**how)]


def test_an_event_on_the_wrong_partition(history: History) -> None:
    at = appended(history.events, edited(history.events[6], id="2/10/0"))
    assert only(history) == f"events {at} is of a command on partition 2"


def test_an_event_of_an_aggregate_that_belongs_elsewhere(history: History) -> None:
    event = edited(history.events[2], subject="zb")
    history.events[2] = Record(event.offset, event.timestamp, b"zb", event.value, event.headers)
    assert "events 2 is of 'zb', whose partition is 2" in said(history)


def test_an_outcome_on_the_wrong_partition(history: History) -> None:
    at = appended(history.outcomes, edited(history.outcomes[2], {"partition": 0}, id="0/2"))
    assert only(history) == f"outcomes {at} is of a command on partition 0"


def test_a_command_decided_on_the_wrong_partition() -> None:
    history = History([Wish(1, "z")])
    unchanged = {"status": "unchanged", "reason": ""}
    history.outcomes[0] = edited(history.outcomes[0], unchanged, type="tally.Add.unchanged")
    assert "outcomes 0 is unchanged, and the partition of 'z' is 2" in said(history)


def test_an_expected_version_that_did_not_hold(history: History) -> None:
    history.commands[0] = edited(history.commands[0], expectedversion="exists")
    assert "outcomes 0 says that version none was expected, its command exists" in said(history)
    history.outcomes[0] = edited(history.outcomes[0], {"expected": "exists"})
    assert "outcomes 0 is accepted, expecting version exists of an aggregate at version 0" in said(history)


def test_a_conflict_that_was_none(history: History) -> None:
    history.outcomes[4] = edited(history.outcomes[4], {"expected": "2"})
    assert "outcomes 5 is VERSION_CONFLICT, expecting version 2 of an aggregate at version 2" in said(history)


def test_a_duplicate_that_points_elsewhere(history: History) -> None:
    original = {"offset": 1, "status": "accepted", "version": 1, "events": 1}
    history.outcomes[6] = edited(history.outcomes[6], {"original": original})
    assert only(history) == "outcomes 8 points to command 1, whose outcome is another's"
    history.outcomes[6] = edited(history.outcomes[6], {"original": original | {"offset": 99}})
    assert only(history) == "outcomes 8 points to command 99, which has no outcome before it"


def test_an_id_decided_twice(history: History) -> None:
    again = History([wish(1, id="x", expectedversion=0), wish(0), wish(1, id="y", expectedversion="1")])
    for log in (again.commands, again.events):
        log[-1] = edited(log[-1], None, **{"id" if log is again.commands else "causationid": "x"})
    again.outcomes[2] = edited(again.outcomes[2], causationid="x", correlationid="x")
    again.events[-1] = edited(again.events[-1], correlationid="x")
    assert only(again) == "outcomes 2 decides id 'x' of 'a' again, as command 0 2 ms before"


@pytest.mark.parametrize(
    "data", [{"status": "agreed"}, {"status": "duplicate"}, {"status": "rejected", "reason": "ID_REUSED"}]
)
def test_what_is_no_decision_is_named_and_not_remembered(data: dict[str, Any]) -> None:
    history = History([wish(0, id="x"), wish(0, id="y"), wish(0), wish(0)])
    history.commands[1] = edited(history.commands[1], id="x")
    history.outcomes[1] = edited(history.outcomes[1], causationid="x", correlationid="x")
    assert only(history) == "outcomes 1 decides id 'x' of 'a' again, as command 0 1 ms before"
    history.outcomes[0] = edited(history.outcomes[0], data)
    assert set(places(history, on_disk=True)) == {("outcomes", 0)}


def test_an_id_may_be_decided_again_after_the_window() -> None:
    history = History([wish(1, id="x"), Wish(1, id="x", wait=WINDOW + 1), wish(1, id="x")])
    assert history.violations() == []
    assert b'"original":{"offset":1' in (history.outcomes[2].value or b"")


@pytest.mark.parametrize("n", [0, 1], ids=["duplicate", "ID_REUSED"])
def test_a_repetition_after_the_window_unless_it_was_longer_once(n: int) -> None:
    history = History([wish(0, id="x"), Wish(n, id="x", wait=WINDOW + 1)])
    assert history.violations() == []
    history.decide(window=5 * WINDOW)
    assert (
        only(history)
        == "outcomes 1 points to command 0 1001 ms before, though an id is remembered for 1000 ms"
    )
    assert history.violations(longest_window=5 * WINDOW) == []


def test_the_window_ends_by_the_latest_time_there_was() -> None:
    history = History([wish(0, id="x"), Wish(0, "b", wait=WINDOW), Wish(0, id="x", wait=-WINDOW)])
    assert history.violations() == []
    history = History([wish(0, id="x"), Wish(0, "b", wait=WINDOW + 1), Wish(0, id="x", wait=-WINDOW)])
    history.decide(window=2 * WINDOW)
    assert "outcomes 2 points to command 0 1001 ms before" in only(history)


def test_an_event_that_another_command_caused(history: History) -> None:
    history.events[2] = edited(history.events[2], causationid="another")
    (violation,) = history.violations()
    assert violation[:2] == ("events", 2) and "('b', 'another', 'c1')" in violation.what


@pytest.mark.parametrize("value", [None, b"", b"[]", b"\xff", b'{"data":' * 100_000])
def test_what_cannot_be_read_is_named(history: History, value: bytes | None) -> None:
    at = appended(history.events, with_value(history.events[0], value))
    also = appended(history.outcomes, with_value(history.outcomes[0], value))
    letter = appended(history.letters, Record(0, 0, None, value, None))
    assert places(history) == [("dead-letters", letter), ("events", at), ("outcomes", also)]


@pytest.mark.parametrize(
    "members",
    [
        {"id": "1/6/3"},
        {"id": "1/06/2"},
        {"id": "x"},
        {"eventindex": 0},
        {"aggregateversion": 2**63},
        {"eventcount": 0},
        {"eventcount": 2**31},
        {"eventindex": 10**400},
        {"aggregateversion": 10**400},
        {"id": "1/" + "9" * 5000 + "/2"},
        {"id": None},
        {"subject": ""},
        {"time": 7},
        {"time": "2026-11-21T00:00:00.000Z"},
        {"source": "/cqrs/another"},
        {"specversion": "0.3"},
        {"type": "another.Added"},
        {"subject": "c"},
        {"correlationid": "c"},
    ],
)
def test_an_event_with_another_attribute(history: History, members: dict[str, Any]) -> None:
    history.events[5] = edited(history.events[5], **members)
    assert ("events", 6) in places(history, on_disk=True)


@pytest.mark.parametrize(
    ("members", "data"),
    [
        ({"id": "1/7"}, {}),
        ({"source": "/another"}, {}),
        ({"time": ""}, {}),
        ({"type": "tally.Add.unchanged"}, {}),
        ({"type": "tally.Subtract.accepted"}, {}),
        ({"subject": "b"}, {}),
        ({"causationid": "y"}, {}),
        ({"correlationid": "y"}, {}),
        ({}, {"status": "agreed"}),
        ({}, {"status": "duplicate"}),
        ({}, {"status": None}),
        ({}, {"status": 7}),
        ({"subject": ""}, {}),
        ({"subject": None}, {}),
        ({"causationid": None}, {}),
        ({}, {"reason": "EXPIRED"}),
        ({}, {"retryable": True}),
        ({}, {"fingerprint": 1}),
        ({}, {"fingerprint": 2**32}),
        ({}, {"expected": "1"}),
        ({}, {"version": 1}),
        ({}, {"version": -1}),
        ({}, {"version": 2**63 - 1}),
        ({}, {"version": 10**400}),
        ({}, {"events": 2**32 - 1}),
        ({}, {"original": {"offset": 0, "status": "accepted", "version": 2, "events": 2}}),
        ({}, {"decidedat": "2026-11-21T00:00:00.000Z"}),
        ({}, {"offset": 2**63}),
        ({"id": f"1/{2**63 - 1}"}, {"offset": 2**63 - 1}),
    ],
)
def test_an_outcome_with_another_member(
    history: History, members: dict[str, Any], data: dict[str, Any]
) -> None:
    history.outcomes[5] = edited(history.outcomes[5], data, **members)
    assert ("outcomes", 6) in places(history, on_disk=True)


def test_a_command_that_was_altered_has_another_fingerprint(history: History) -> None:
    history.commands[3] = edited(history.commands[3], {"n": -2})
    assert only(history) == "outcomes 4 does not have the fingerprint of its command"


@pytest.mark.parametrize(
    ("at", "data", "what"),
    [
        (3, {"status": "agreed"}, "has the status 'agreed', which is unknown"),
        (3, {"reason": "KEY_MISSING"}, "is rejected with the reason KEY_MISSING"),
        (3, {"events": 1}, "is rejected with 1 events"),
        (0, {"version": 1}, "leads to version 1 with 2 events"),
        (
            3,
            {"original": {"offset": 0, "status": "accepted", "version": 2, "events": 2}},
            "is rejected (BUSINESS_RULE) with a first decision",
        ),
        (3, {"fingerprint": None}, "has no fingerprint"),
        (3, {"decidedat": "now"}, "is rejected with a decidedat"),
        (3, {"retryable": True}, "says retryable True of BUSINESS_RULE"),
        (4, {"expected": None}, "is VERSION_CONFLICT without an expected version"),
        (7, {"reason": "KEY_MISSING"}, "is KEY_MISSING, its command INVALID_ENVELOPE"),
        (7, {"version": 3}, "is INVALID_ENVELOPE, and says version 3"),
        (0, {"expected": "07"}, "is accepted with the expected version '07', which is invalid"),
        (
            0,
            {"status": "failed", "reason": "INVALID_EXPECTED_VERSION"},
            "is INVALID_EXPECTED_VERSION, and 'none' is a valid expected version",
        ),
    ],
)
def test_a_verdict_that_contradicts_itself(
    history: History, at: int, data: dict[str, Any], what: str
) -> None:
    outcome = json.loads(history.outcomes[at].value or b"")
    outcome["data"] = {name: value for name, value in (outcome["data"] | data).items() if value is not None}
    history.outcomes[at] = with_value(history.outcomes[at], json.dumps(outcome).encode())
    assert f"outcomes {history.outcomes[at].offset} {what}" in said(history)


def remade(record: Record, **members: Any) -> Record:
    """The record with another key, timestamp or headers."""
    return msgspec.structs.replace(record, **members)


@pytest.mark.parametrize("kind", ["outcomes", "events"])
@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"headers": None}, "has other headers than an "),
        ({"key": b"b"}, "is of 'a' under the key b'b'"),
        ({"timestamp": 1}, "has the time "),
    ],
)
def test_a_record_is_as_its_document_says(
    history: History, kind: str, members: dict[str, Any], what: str
) -> None:
    log: list[Record] = getattr(history, kind)
    log[0] = remade(log[0], **members)
    assert any(text.startswith(f"{kind} 0 {what}") for text in said(history))


@pytest.mark.parametrize("kind", ["outcomes", "events"])
@pytest.mark.parametrize("at", [0, 1, -1])
@pytest.mark.parametrize(
    "members",
    [
        {"timestamp": -1},
        {"timestamp": -(2**63)},
        {"timestamp": 2**63 - 1},
        {"key": None},
        {"key": b""},
        {"key": b"\xff" * 600},
        {"headers": [("content-type", None)]},
    ],
)
def test_a_record_with_absurd_marks_is_named(
    history: History, kind: str, at: int, members: dict[str, Any]
) -> None:
    log: list[Record] = getattr(history, kind)
    log[at] = remade(log[at], **members)
    assert (kind, log[at].offset) in places(history, on_disk=True)


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"timestamp": 1}, "does not have the timestamp of its command"),
        ({"key": b"b"}, "has the key b'a', its command b'b'"),
        ({"key": b"b"}, "is accepted, though the key of its command is not the subject"),
        ({"value": b"?"}, "is accepted, its command INVALID_ENVELOPE"),
        ({"key": None}, "is accepted, its command KEY_MISSING"),
    ],
)
def test_an_outcome_fits_its_command(history: History, members: dict[str, Any], what: str) -> None:
    history.commands[0] = remade(history.commands[0], **members)
    assert f"outcomes 0 {what}" in said(history)


def test_a_key_that_was_no_mismatch() -> None:
    history = History([Wish(1, key=b"b")])
    assert history.violations() == []
    history.commands[0] = remade(history.commands[0], key=b"a")
    assert "outcomes 0 is KEY_MISMATCH, and the key of its command is the subject" in said(history)


def test_a_command_that_had_expired_is_not_accepted() -> None:
    history = History([wish(1, expirytime="2026-11-21T00:00:00Z")])
    assert history.violations() == []
    history.commands[0] = edited(history.commands[0], expirytime="1970-01-01T00:00:00Z")
    assert only(history) == "outcomes 0 is accepted, and its command had expired at 1970-01-01T00:00:00+00:00"


EXPIRED: dict[str, Any] = {"status": "rejected", "reason": "EXPIRED", "retryable": False}


@pytest.mark.parametrize(
    ("expirytime", "decidedat", "what"),
    [
        (None, "2026-11-21T00:00:00.000Z", ", and its command has no expirytime"),
        (
            "2026-11-21T00:00:00Z",
            "2026-11-21T00:00:00.000Z",
            ", decided at 2026-11-21T00:00:00.000Z, and its command expires at 2026-11-21T00:00:00+00:00",
        ),
        (
            "1970-01-01T00:00:00Z",
            "1970-01-01T00:00:00.001Z",
            ", decided at 1970-01-01T00:00:00.001Z, before its command was there",
        ),
        ("1970-01-01T00:00:00Z", "lately", ", decided at 'lately', which is not a time"),
    ],
)
def test_a_command_that_had_not_expired(expirytime: str | None, decidedat: str, what: str) -> None:
    history = History([wish(0, expirytime=expirytime)])
    type = "tally.Add.rejected"
    history.outcomes[0] = edited(history.outcomes[0], EXPIRED | {"decidedat": decidedat}, type=type)
    assert only(history) == f"outcomes 0 is EXPIRED{what}"


def test_a_command_may_expire_while_it_waits() -> None:
    history = History([wish(0, expirytime="2999-01-01T00:00:00Z")])
    late = EXPIRED | {"decidedat": "2999-01-01T00:00:00.001Z"}
    history.outcomes[0] = edited(history.outcomes[0], late, type="tally.Add.rejected")
    assert history.violations() == []


@pytest.mark.parametrize("timestamp", [-1, NOW, 2**60])
def test_a_command_that_had_expired_when_it_was_sent(timestamp: int) -> None:
    history = History([wish(0, expirytime="1960-01-01T00:00:00Z")])
    history.commands[0] = remade(history.commands[0], timestamp=timestamp)
    history.decide()
    assert b"EXPIRED" in (history.outcomes[0].value or b"")
    assert history.violations() == []


def test_events_of_another_time_than_their_outcome(history: History) -> None:
    event = edited(history.events[2], time="1970-01-01T00:00:00.001Z")
    history.events[2] = remade(event, timestamp=1)
    assert only(history) == "events 2 does not have the timestamp of its command's outcome"


def test_a_dead_letter_with_another_reason(history: History) -> None:
    headers = [("cqrs.reason", b"KEY_MISSING"), *(history.letters[0].headers or [])[-4:]]
    before = (history.letters[0].headers or [])[:-5]
    history.letters[0] = remade(history.letters[0], headers=[*before, *headers])
    assert only(history) == ("dead-letters 0 has another reason, key or timestamp than its command's outcome")


def test_a_failed_command_without_dead_letter(history: History) -> None:
    history.letters.clear()
    assert only(history) == "outcomes 9 is of command 9, which has no dead letter"


def test_a_dead_letter_with_other_bytes(history: History) -> None:
    history.letters[0] = with_value(history.letters[0], b"other")
    assert only(history) == "dead-letters 0 does not have the bytes and headers of command 9"


def test_a_dead_letter_of_a_command_that_did_not_fail(history: History) -> None:
    letter = history.letters[0]
    headers = [*(letter.headers or [])[:-1], ("cqrs.offset", b"1")]
    at = appended(history.letters, Record(0, letter.timestamp, letter.key, letter.value, headers))
    assert ("dead-letters", at, "is of command 1, whose outcome is accepted") in history.violations()


def test_what_an_operator_gave_up_is_kept_without_its_bytes() -> None:
    history = History([wish(1), wish(1)], refused=frozenset([1]))
    assert history.letters[0].value is None
    assert history.violations() == []


def test_commands_deleted_by_retention_are_counted_and_their_events_still_proved(history: History) -> None:
    del history.commands[:6]
    report = history.prove()
    assert (report.commands, report.deleted["commands"], report.violation_count) == (3, 6, 0)
    del history.events[2]
    assert only(history) == "outcomes 1 is of command 1, whose events are missing: 1"


def test_outcomes_and_dead_letters_deleted_by_retention_are_counted(history: History) -> None:
    del history.outcomes[:2], history.letters[:]
    report = history.prove(starts={"outcomes": 2, "dead-letters": 1})
    assert (report.deleted["outcomes"], report.deleted["dead-letters"]) == (2, 1)
    assert report.violations == ()


def test_events_are_never_deleted(history: History) -> None:
    del history.events[:2]
    first, *_ = history.violations(starts={"events": 2})
    assert first == ("events", 2, "is where the log starts: events were deleted")


@pytest.mark.pins("verifiable")
@given(seeds, st.integers(0, 40), st.tuples(*[st.integers(0, 40)] * 3))
def test_of_what_an_owner_decides_meanwhile_parts_may_be_seen(
    seed: int, decided: int, seen: tuple[int, int, int]
) -> None:
    history = History(drawn(seed))
    ends = [record.offset for record in history.commands]
    ends.append(ends[-1] + 1)
    before = ends[decided]
    logs = (history.outcomes, history.events, history.letters)
    for log, more, command_of in zip(logs, seen, (outcome_of, event_of, letter_of), strict=True):
        log[:] = [record for record in log if command_of(record) < before] + [
            record for record in log if command_of(record) >= before
        ][:more]
    assert history.violations(seen=(before, history.committed)) == []


def outcome_of(record: Record) -> int:
    return int(json.loads(record.value or b"")["data"]["offset"])


def event_of(record: Record) -> int:
    return int(json.loads(record.value or b"")["id"].split("/")[1])


def letter_of(record: Record) -> int:
    return int(dict(record.headers or [])["cqrs.offset"] or b"")


def test_without_a_committed_offset_the_last_outcome_says_how_far_it_is(history: History) -> None:
    del history.outcomes[-1], history.events[-1]
    assert history.violations(seen=(None, None)) == []
    del history.outcomes[2]
    assert only(history, seen=(None, None)) == "commands 2 has no outcome"


def test_what_an_operator_accepted_as_lost_is_counted_and_no_violation(history: History) -> None:
    del history.outcomes[1:4], history.events[2]
    report = history.prove(loss=Loss(5, 0, 0))
    assert (report.accepted, report.violations) == (4, ())
    del history.outcomes[-3]
    assert only(history, loss=Loss(5, 0, 0)) == "commands 8 has no outcome"


def test_events_lost_with_their_topic_begin_again(history: History) -> None:
    later = History([wish(1), wish(1), wish(1, "b")])
    lost = History([wish(1), wish(0), wish(0)])
    later.commands, later.outcomes = later.commands, [lost.outcomes[0], *again(later).outcomes]
    later.events = again(later).events
    report = later.prove(loss=Loss(1, 0, 1))
    assert (report.accepted, report.violations) == (2, ())


def again(history: History) -> History:
    """The commands after the first, decided as if it had not been."""
    rest = History([])
    rest.commands = history.commands[1:]
    rest.decide()
    return rest


def test_commands_that_began_again_from_an_accepted_offset_are_proved(history: History) -> None:
    old = History([wish(1), wish(2), wish(1)])
    new = History([Wish(1, wait=60_000), wish(1)])
    history.commands, history.committed = new.commands, new.committed
    for log, first, second in (
        (history.outcomes, old.outcomes, new.outcomes),
        (history.events, old.events, new.events),
    ):
        log[:] = first
        for record in second:
            appended(log, record)
    history.letters.clear()
    loss = Loss(0, old.events[-1].offset + 1, old.outcomes[-1].offset + 1)
    assert history.violations() != []
    assert history.violations(loss=loss) == []
    del history.outcomes[-1]
    assert "commands 1 has no outcome" in said(history, loss=loss)


@pytest.mark.parametrize("resumed", [0, 2, 4])
def test_commands_decided_twice_are_no_accepted_loss(resumed: int) -> None:
    history = History([Wish(1, wait=2 * WINDOW) for _ in range(4)])
    told = [record for record in history.outcomes if outcome_of(record) >= resumed]
    places = [appended(history.outcomes, record) for record in told]
    said = history.violations(loss=Loss(resumed, 99, places[0]))
    first = f"is of command {resumed}, as is the record at offset "
    assert [at for kind, at, _ in said if kind == "outcomes"] == places and said[0].what.startswith(first)


def test_outcomes_deleted_up_to_those_of_another_topic() -> None:
    history = History([Wish(1, wait=60_000), wish(1)])
    old = History([wish(1), wish(2), wish(1)])
    later = [moved(record, number + 9) for number, record in enumerate(history.outcomes)]
    events = [moved(record, number + 9) for number, record in enumerate(history.events)]
    history.outcomes, history.events = old.outcomes[1:] + later, old.events + events
    report = history.prove(loss=Loss(0, 9, 9), starts={"outcomes": 1})
    assert (report.accepted > 0, report.violations) == (True, ())


@pytest.mark.parametrize(
    "again", [wish(10, id="x"), wish(1, id="x", type="tally.Forget"), wish(1, id="x", expectedversion="07")]
)
def test_an_id_that_is_looked_at_again_and_fails_is_found(again: Wish) -> None:
    history = History([wish(1, id="x"), again])
    assert history.violations() == []
    history.decide(window=-1)
    assert "outcomes 1 decides id 'x' of 'a' again, as command 0" in said(history)[0]


@pytest.mark.parametrize("other", [wish(-1), wish(1, expectedversion="5")])
def test_an_expired_command_that_is_rejected_for_another_reason_is_found(other: Wish) -> None:
    expired = History(
        [replace(other, attributes=(*other.attributes, ("expirytime", "1970-01-01T00:00:00Z")))]
    )
    assert expired.violations() == []
    late = History([other])
    expired.outcomes, expired.letters = late.outcomes, late.letters
    assert "and its command had expired at 1970" in only(expired)


def drop(history: History, log: list[Record], at: int) -> None:
    del log[at]


def double(history: History, log: list[Record], at: int) -> None:
    appended(log, log[at])


def double_beside(history: History, log: list[Record], at: int) -> None:
    log.insert(at, log[at])


def swap(history: History, log: list[Record], at: int) -> None:
    swapped(log, at - 1, at)


def forge_version(history: History, log: list[Record], at: int) -> None:
    name = "aggregateversion" if log is history.events else "version"
    members = json.loads(log[at].value or b"")
    found = members if log is history.events else members["data"]
    forged = {name: found[name] + 1}
    log[at] = edited(log[at], **forged) if log is history.events else edited(log[at], forged)


def forge_count(history: History, log: list[Record], at: int) -> None:
    members = json.loads(log[at].value or b"")
    if log is history.events:
        log[at] = edited(log[at], eventcount=members["eventcount"] + 1)
    else:
        log[at] = edited(log[at], {"events": members["data"]["events"] + 1})


def garble(history: History, log: list[Record], at: int) -> None:
    log[at] = with_value(log[at], b"?")


def forge_status(history: History, log: list[Record], at: int) -> None:
    status = json.loads(log[at].value or b"")["data"].get("status")
    if status is None:  # an event has none
        log[at] = edited(log[at], id="1/0")
    else:
        log[at] = edited(log[at], {"status": "duplicate" if status != "duplicate" else "agreed"})


def empty(history: History, log: list[Record], at: int) -> None:
    log[at] = with_value(log[at], None)


MUTATIONS = [drop, double, double_beside, swap, forge_version, forge_count, forge_status, garble, empty]


@pytest.mark.pins("verifiable")
@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
@pytest.mark.parametrize("mutation", MUTATIONS)
@pytest.mark.parametrize("kind", ["outcomes", "events"])
@given(seed=seeds, place=st.floats(0, 1, exclude_max=True))
def test_every_single_mutation_of_a_history_is_found(
    kind: str,
    mutation: Callable[[History, list[Record], int], None],
    on_disk: bool,
    seed: int,
    place: float,
) -> None:
    history = History(drawn(seed))
    log: list[Record] = getattr(history, kind)
    at = int(place * len(log))
    if len(log) <= (mutation is swap) or (mutation is swap and at == 0):
        return
    mutation(history, log, at)
    assert history.violations(on_disk=on_disk) != []


@given(seed=seeds, place=st.floats(0, 1, exclude_max=True))
def test_every_missing_dead_letter_is_found(seed: int, place: float) -> None:
    history = History(drawn(seed))
    if history.letters:
        del history.letters[int(place * len(history.letters))]
        assert history.violations() != []


def test_violations_without_number_are_counted_and_some_named(history: History) -> None:
    for _ in range(300):
        appended(history.outcomes, history.outcomes[0])
    report = history.prove()
    assert (report.violation_count, len(report.violations)) == (300, findings.MAX_NAMED)
