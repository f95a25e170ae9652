"""Faults in the outcomes are reported with partition and offset."""

import json
from typing import Any

import pytest

from tests.proof.history import History, append_record, swap_records, with_value
from tests.proof.violations import only_violation, violation_positions, violation_texts
from tests.support.foreign_records import changed_record


def test_missing_outcome_is_named(history: History) -> None:
    del history.outcomes[3]
    assert only_violation(history) == "commands 4 has no outcome"


def test_missing_first_outcome_is_named(history: History) -> None:
    del history.outcomes[0]
    assert "commands 0 has no outcome" in violation_texts(history)


def test_missing_outcome_orphans_its_letter(history: History) -> None:
    del history.outcomes[7]
    violation = "is of command 9, which has no outcome"
    assert history.violations() == [("commands", 9, "has no outcome"), ("dead-letters", 0, violation)]


def test_missing_outcome_orphans_its_events(history: History) -> None:
    del history.outcomes[1]
    assert history.violations() == [
        ("commands", 1, "has no outcome"),
        ("events", 2, "is of command 1, which has no outcome"),
    ]


def test_repeated_outcome_is_found(history: History) -> None:
    offset = append_record(history.outcomes, history.outcomes[2])
    assert only_violation(history) == f"outcomes {offset} is of command 2, as is the record at offset 2"


def test_outcome_above_committed_offset(history: History) -> None:
    history.committed = 10
    assert ("outcomes", 10) in violation_positions(history)
    assert "only the commands before 10 are decided" in history.violations()[-1].problem


def test_outcome_without_command_is_found(history: History) -> None:
    del history.commands[2]
    assert only_violation(history) == "outcomes 2 is of command 2, which does not exist"


def test_swapped_outcomes_are_found(history: History) -> None:
    swap_records(history.outcomes, 2, 3)
    assert only_violation(history) == "outcomes 4 is of command 2, and comes after command 4"


def test_forged_outcome_version_is_found(history: History) -> None:
    history.outcomes[2] = changed_record(history.outcomes[2], {"version": 7})
    assert only_violation(history) == "outcomes 2 has version 7, but 'a' is at version 2"


def test_wrong_number_of_events(history: History) -> None:
    history.outcomes[5] = changed_record(history.outcomes[5], {"events": 2})
    assert "events 4 is one of 3 events of command 6, whose outcome says 2" in violation_texts(history)


def test_outcome_on_wrong_partition(history: History) -> None:
    offset = append_record(history.outcomes, changed_record(history.outcomes[2], {"partition": 0}, id="0/2"))
    assert only_violation(history) == f"outcomes {offset} is of a command on partition 0"


def test_broken_expected_version_is_found(history: History) -> None:
    history.commands[0] = changed_record(history.commands[0], expectedversion="exists")
    assert "outcomes 0 says that version none was expected, its command exists" in violation_texts(history)
    history.outcomes[0] = changed_record(history.outcomes[0], {"expected": "exists"})
    assert "outcomes 0 is accepted, expecting version exists of an aggregate at version 0" in violation_texts(
        history
    )


def test_false_version_conflict_is_found(history: History) -> None:
    history.outcomes[4] = changed_record(history.outcomes[4], {"expected": "2"})
    assert (
        "outcomes 5 is VERSION_CONFLICT, expecting version 2 of an aggregate at version 2"
        in violation_texts(history)
    )


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
def test_outcome_with_wrong_member(history: History, members: dict[str, Any], data: dict[str, Any]) -> None:
    history.outcomes[5] = changed_record(history.outcomes[5], data, **members)
    assert ("outcomes", 6) in violation_positions(history, on_disk=True)


@pytest.mark.parametrize(
    ("index", "data", "problem"),
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
        (7, {"reason": "KEY_MISSING"}, "is KEY_MISSING, but its command is INVALID_ENVELOPE"),
        (7, {"version": 3}, "is INVALID_ENVELOPE, but says version 3"),
        (0, {"expected": "07"}, "is accepted with the expected version '07', which is invalid"),
        (
            0,
            {"status": "failed", "reason": "INVALID_EXPECTED_VERSION"},
            "is INVALID_EXPECTED_VERSION, but 'none' is a valid expected version",
        ),
    ],
)
def test_inconsistent_outcome_is_found(
    history: History, index: int, data: dict[str, Any], problem: str
) -> None:
    outcome = json.loads(history.outcomes[index].value or b"")
    outcome["data"] = {name: value for name, value in (outcome["data"] | data).items() if value is not None}
    history.outcomes[index] = with_value(history.outcomes[index], json.dumps(outcome).encode())
    assert f"outcomes {history.outcomes[index].offset} {problem}" in violation_texts(history)
