"""An id is decided once within the window, and violations of this rule are reported."""

from typing import Any

import pytest

from tests.proof.history import WINDOW, History, PlannedCommand, plan_command
from tests.proof.violations import only_violation, violation_positions, violation_texts, without_members
from tests.support.foreign_records import changed_record


def test_duplicate_of_another_command(history: History) -> None:
    original = {"offset": 1, "status": "accepted", "version": 1, "events": 1}
    history.outcomes[6] = changed_record(history.outcomes[6], {"original": original})
    assert only_violation(history) == "outcomes 8 points to command 1, whose outcome is of another id"
    history.outcomes[6] = changed_record(history.outcomes[6], {"original": original | {"offset": 99}})
    assert only_violation(history) == "outcomes 8 points to command 99, which has no outcome before it"


def test_id_decided_twice_is_found() -> None:
    history = History(
        [
            plan_command(1, id="x", expectedversion=0),
            plan_command(0),
            plan_command(1, id="y", expectedversion="1"),
        ]
    )
    for log in (history.commands, history.events):
        log[-1] = changed_record(log[-1], None, **{"id" if log is history.commands else "causationid": "x"})
    history.outcomes[2] = changed_record(history.outcomes[2], causationid="x", correlationid="x")
    history.events[-1] = changed_record(history.events[-1], correlationid="x")
    assert only_violation(history) == "outcomes 2 decides id 'x' of 'a' again, as command 0 2 ms before"


@pytest.mark.parametrize(
    "data", [{"status": "agreed"}, {"status": "duplicate"}, {"status": "rejected", "reason": "ID_REUSED"}]
)
def test_invalid_decision_is_not_remembered(data: dict[str, Any]) -> None:
    history = History([plan_command(0, id="x"), plan_command(0, id="y"), plan_command(0), plan_command(0)])
    history.commands[1] = changed_record(history.commands[1], id="x")
    history.outcomes[1] = changed_record(history.outcomes[1], causationid="x", correlationid="x")
    assert only_violation(history) == "outcomes 1 decides id 'x' of 'a' again, as command 0 1 ms before"
    history.outcomes[0] = changed_record(history.outcomes[0], data)
    assert set(violation_positions(history, on_disk=True)) == {("outcomes", 0)}


def test_id_decided_again_after_window() -> None:
    history = History(
        [plan_command(1, id="x"), PlannedCommand(1, id="x", wait=WINDOW + 1), plan_command(1, id="x")]
    )
    assert history.violations() == []
    assert b'"original":{"offset":1' in (history.outcomes[2].value or b"")


@pytest.mark.parametrize("n", [0, 1], ids=["duplicate", "ID_REUSED"])
def test_repetition_after_window_is_found(n: int) -> None:
    history = History([plan_command(0, id="x"), PlannedCommand(n, id="x", wait=WINDOW + 1)])
    assert history.violations() == []
    history.decide(window=5 * WINDOW)
    assert (
        only_violation(history)
        == "outcomes 1 points to command 0 1001 ms before, though an id is remembered for 1000 ms"
    )
    assert history.violations(longest_window=5 * WINDOW) == []


def test_window_ends_by_latest_timestamp() -> None:
    history = History(
        [
            plan_command(0, id="x"),
            PlannedCommand(0, "b", wait=WINDOW),
            PlannedCommand(0, id="x", wait=-WINDOW),
        ]
    )
    assert history.violations() == []
    history = History(
        [
            plan_command(0, id="x"),
            PlannedCommand(0, "b", wait=WINDOW + 1),
            PlannedCommand(0, id="x", wait=-WINDOW),
        ]
    )
    history.decide(window=2 * WINDOW)
    assert "outcomes 2 points to command 0 1001 ms before" in only_violation(history)


@pytest.mark.parametrize(
    "repetition",
    [
        plan_command(10, id="x"),
        plan_command(1, id="x", type="tally.Forget"),
        plan_command(1, id="x", expectedversion="07"),
    ],
)
def test_failing_repetition_is_found(repetition: PlannedCommand) -> None:
    history = History([plan_command(1, id="x"), repetition])
    assert history.violations() == []
    history.decide(window=-1)
    assert "outcomes 1 decides id 'x' of 'a' again, as command 0" in violation_texts(history)[0]


@pytest.mark.covers("verifiable")
def test_duplicate_of_failed_command_is_found() -> None:
    history = History([plan_command(10, id="x"), plan_command(10, id="x")])
    assert history.violations() == []
    original = {"offset": 0, "status": "failed", "version": 0, "events": 0}
    history.outcomes[1] = without_members(history.outcomes[1], "reason", "message", "retryable")
    duplicate = changed_record(history.outcomes[1], {"status": "duplicate", "original": original})
    history.outcomes[1] = changed_record(duplicate, type="tally.Add.duplicate")
    del history.letters[1]
    problem = "outcomes 1 points to a decision that was failed, which is not remembered"
    assert only_violation(history) == problem
    del history.commands[0], history.outcomes[0], history.letters[0]
    assert only_violation(history, starts={"outcomes": 1}) == problem
