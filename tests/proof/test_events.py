"""Faults in the events are reported with partition and offset."""

from typing import Any

import pytest

from cqrs_cli.core.messages.record import Record
from cqrs_cli.proof.scope import check_shape
from tests.proof.history import History, append_record, swap_records, with_offset
from tests.proof.violations import only_violation, violation_positions, violation_texts, with_members
from tests.support.foreign_records import changed_record


@pytest.mark.parametrize(("index", "offset"), [(2, 1), (6, 10)])
def test_missing_only_event_is_found(history: History, index: int, offset: int) -> None:
    del history.events[index]
    assert (
        only_violation(history)
        == f"outcomes {offset} is of command {offset}, of which 0 of 1 events were found"
    )


@pytest.mark.parametrize(
    ("index", "text"), [(3, "event 1/6/1, but event 0"), (4, "event 1/6/2, but event 1")]
)
def test_missing_earlier_event_is_found(history: History, index: int, text: str) -> None:
    next_offset = history.events[index + 1].offset
    del history.events[index]
    assert only_violation(history) == f"events {next_offset} is {text} is not before it"


def test_events_after_unreadable_event_count(history: History) -> None:
    history.events[2] = with_members(history.events[2], value=b"?")
    unreadable, missing = violation_texts(history)
    assert unreadable.startswith("events 2 is not an event")
    assert missing == "outcomes 1 is of command 1, of which 0 of 1 events were found"


def test_missing_last_event_is_found(history: History) -> None:
    del history.events[5]
    assert only_violation(history) == ("events 4 is of command 6, of which only 2 of 3 events were found")


def test_event_repeated_at_once_is_found(history: History) -> None:
    history.events.insert(2, with_offset(history.events[1], 1))
    assert only_violation(history) == "events 1 repeats event 1/0/1"


def test_event_repeated_later_is_found(history: History) -> None:
    offset = append_record(history.events, history.events[2])
    assert only_violation(history) == f"events {offset} is of command 1, as is the record at offset 2"


def test_swapped_events_of_one_command(history: History) -> None:
    swap_records(history.events, 4, 5)
    assert ("events", 5) in violation_positions(history)


def test_swapped_events_of_two_commands(history: History) -> None:
    swap_records(history.events, 2, 6)
    assert ("events", 8) in violation_positions(history)


def test_interleaved_events_are_found(history: History) -> None:
    swap_records(history.events, 2, 1)
    assert {kind for kind, _ in violation_positions(history)} == {"events"}


def test_forged_event_version_is_found(history: History) -> None:
    history.events[6] = changed_record(history.events[6], aggregateversion=9)
    assert only_violation(history) == "events 8 leads 'b' to version 9, its command's outcome to 2"


def test_missing_version_is_found(history: History) -> None:
    history.events[6] = changed_record(history.events[6], aggregateversion=9)
    history.outcomes[8] = changed_record(history.outcomes[8], {"version": 9})
    assert only_violation(history) == (
        "events 8 goes on from version 8 of 'b', which is at 1: versions are missing"
    )


def test_jump_without_events_is_found(history: History) -> None:
    history.outcomes[8] = changed_record(history.outcomes[8], {"version": 9})
    del history.events[6]
    assert violation_texts(history) == [
        "outcomes 10 goes on from version 8 of 'b', which is at 1: versions are missing",
        "outcomes 10 is of command 10, of which 0 of 1 events were found",
    ]


def test_jump_of_unaccepted_command_is_found(history: History) -> None:
    history.outcomes[1] = changed_record(history.outcomes[1], {"status": "unchanged", "events": 0})
    history.events[2] = changed_record(history.events[2], aggregateversion=4)
    violation = "events 2 goes on from version 3 of 'b', which is at 0: versions are missing"
    assert violation in violation_texts(history)


def test_first_version_is_one(history: History) -> None:
    history.events[2] = changed_record(history.events[2], aggregateversion=4)
    history.outcomes[1] = changed_record(history.outcomes[1], {"version": 4})
    text = violation_texts(history)
    assert text[0] == "events 2 goes on from version 3 of 'b', which is at 0: versions are missing"


def test_repeated_version_is_found(history: History) -> None:
    history.events[6] = changed_record(history.events[6], aggregateversion=1)
    history.outcomes[8] = changed_record(history.outcomes[8], {"version": 1}, **{})
    text = history.violations()
    assert text[0] == ("events", 8, "goes on from version 0 of 'b', which is at 1: a version is repeated")


def test_event_without_outcome_is_found(history: History) -> None:
    orphan = changed_record(history.events[6], id="1/11/0", aggregateversion=3)
    offset = append_record(history.events, orphan)
    assert only_violation(history) == f"events {offset} is of command 11, which is not decided yet"
    assert (
        only_violation(history, committed=(20, 20))
        == f"events {offset} is of command 11, which has no outcome"
    )


def test_event_of_unaccepted_command(history: History) -> None:
    history.outcomes[1] = changed_record(history.outcomes[1], {"status": "unchanged", "events": 0})
    assert ("events", 2, "is of command 1, whose outcome is unchanged") in history.violations()


def test_wrong_eventcount_is_found(history: History) -> None:
    history.events[6] = changed_record(history.events[6], eventcount=2)
    assert ("events", 8) in violation_positions(history)


def test_different_eventcounts_are_found(history: History) -> None:
    history.events[4] = changed_record(history.events[4], eventcount=4)
    assert only_violation(history) == "events 5 differs from the first event of command 6"


def test_event_on_wrong_partition(history: History) -> None:
    offset = append_record(history.events, changed_record(history.events[6], id="2/10/0"))
    assert only_violation(history) == f"events {offset} is of a command on partition 2"


def test_event_of_foreign_aggregate(history: History) -> None:
    event = changed_record(history.events[2], subject="zb")
    history.events[2] = Record(event.offset, event.timestamp, b"zb", event.value, event.headers)
    assert "events 2 is of 'zb', whose partition is 2" in violation_texts(history)


def test_event_with_another_cause(history: History) -> None:
    history.events[2] = changed_record(history.events[2], causationid="another")
    (violation,) = history.violations()
    assert violation[:2] == ("events", 2) and "('b', 'another', 'c1')" in violation.problem


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
def test_event_with_wrong_attribute(history: History, members: dict[str, Any]) -> None:
    history.events[5] = changed_record(history.events[5], **members)
    assert ("events", 6) in violation_positions(history, on_disk=True)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"id": "1/06/2"}, "its id is '1/06/2'"),
        ({"eventcount": 2}, "its eventindex is 2, eventcount 2, aggregateversion 5"),
        ({"eventcount": 2**31}, f"its eventindex is 2, eventcount {2**31}, aggregateversion 5"),
        ({"eventcount": 2**31 - 1}, None),
        ({"aggregateversion": 2}, "its eventindex is 2, eventcount 3, aggregateversion 2"),
        ({"aggregateversion": 2**63}, f"its eventindex is 2, eventcount 3, aggregateversion {2**63}"),
        ({"aggregateversion": 2**63 - 1}, None),
    ],
)
def test_impossible_numbers_are_found(history: History, members: dict[str, Any], text: str | None) -> None:
    history.events[5] = changed_record(history.events[5], **members)
    differs = "events 6 differs from the first event of command 6"
    expected = differs if text is None else f"events 6 is not an event: {text}"
    assert expected in violation_texts(history)


def test_events_with_another_timestamp(history: History) -> None:
    event = changed_record(history.events[2], time="1970-01-01T00:00:00.001Z")
    history.events[2] = with_members(event, timestamp=1)
    assert only_violation(history) == "events 2 does not have the timestamp of its command's outcome"


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize(
    ("members", "data", "reason"),
    [
        ({"type": "tally.Lost"}, {}, "the code knows no event tally.Lost: deploy the code that wrote it"),
        ({}, {"by": "x"}, "tally.Added 1/1/0 does not match its class: Expected `int`, got `str`"),
    ],
)
def test_event_that_no_code_reads(
    history: History, members: dict[str, Any], data: dict[str, Any], reason: str
) -> None:
    history.events[2] = changed_record(history.events[2], data, **members)
    assert history.violations(decode_event=check_shape) == []
    assert f"events 2 cannot be read: {reason}" in only_violation(history)


@pytest.mark.parametrize("data", [b"7", b'"x"', b"null", b"[]", b'{"by":"\xff"}', b'{"by":' + b"[" * 9999])
def test_data_without_fields_is_found(history: History, data: bytes) -> None:
    value = (history.events[2].value or b"").replace(b'{"by":0}', data)
    history.events[2] = with_members(history.events[2], value=value)
    assert ("events", 2) in violation_positions(history, decode_event=check_shape)


def test_type_without_event_name_is_found(history: History) -> None:
    history.events[2] = changed_record(history.events[2], type="tally.")
    assert "events 2 cannot be read: its type 'tally.' names no event" in only_violation(
        history, decode_event=check_shape
    )
