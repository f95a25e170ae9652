"""An id is decided once within the window, and violations of this rule are reported."""

from typing import Any

import pytest

from tests.proof.history import WINDOW, History, Wish, wish
from tests.proof.violations import described, only, places, without
from tests.support.foreign_records import edited


def test_duplicate_of_another_command(history: History) -> None:
    original = {"offset": 1, "status": "accepted", "version": 1, "events": 1}
    history.outcomes[6] = edited(history.outcomes[6], {"original": original})
    assert only(history) == "outcomes 8 points to command 1, whose outcome is another's"
    history.outcomes[6] = edited(history.outcomes[6], {"original": original | {"offset": 99}})
    assert only(history) == "outcomes 8 points to command 99, which has no outcome before it"


def test_id_decided_twice_is_found(history: History) -> None:
    again = History([wish(1, id="x", expectedversion=0), wish(0), wish(1, id="y", expectedversion="1")])
    for log in (again.commands, again.events):
        log[-1] = edited(log[-1], None, **{"id" if log is again.commands else "causationid": "x"})
    again.outcomes[2] = edited(again.outcomes[2], causationid="x", correlationid="x")
    again.events[-1] = edited(again.events[-1], correlationid="x")
    assert only(again) == "outcomes 2 decides id 'x' of 'a' again, as command 0 2 ms before"


@pytest.mark.parametrize(
    "data", [{"status": "agreed"}, {"status": "duplicate"}, {"status": "rejected", "reason": "ID_REUSED"}]
)
def test_invalid_decision_is_not_remembered(data: dict[str, Any]) -> None:
    history = History([wish(0, id="x"), wish(0, id="y"), wish(0), wish(0)])
    history.commands[1] = edited(history.commands[1], id="x")
    history.outcomes[1] = edited(history.outcomes[1], causationid="x", correlationid="x")
    assert only(history) == "outcomes 1 decides id 'x' of 'a' again, as command 0 1 ms before"
    history.outcomes[0] = edited(history.outcomes[0], data)
    assert set(places(history, on_disk=True)) == {("outcomes", 0)}


def test_id_decided_again_after_window() -> None:
    history = History([wish(1, id="x"), Wish(1, id="x", wait=WINDOW + 1), wish(1, id="x")])
    assert history.violations() == []
    assert b'"original":{"offset":1' in (history.outcomes[2].value or b"")


@pytest.mark.parametrize("n", [0, 1], ids=["duplicate", "ID_REUSED"])
def test_repetition_after_window_is_found(n: int) -> None:
    history = History([wish(0, id="x"), Wish(n, id="x", wait=WINDOW + 1)])
    assert history.violations() == []
    history.decide(window=5 * WINDOW)
    assert (
        only(history)
        == "outcomes 1 points to command 0 1001 ms before, though an id is remembered for 1000 ms"
    )
    assert history.violations(longest_window=5 * WINDOW) == []


def test_window_ends_by_latest_timestamp() -> None:
    history = History([wish(0, id="x"), Wish(0, "b", wait=WINDOW), Wish(0, id="x", wait=-WINDOW)])
    assert history.violations() == []
    history = History([wish(0, id="x"), Wish(0, "b", wait=WINDOW + 1), Wish(0, id="x", wait=-WINDOW)])
    history.decide(window=2 * WINDOW)
    assert "outcomes 2 points to command 0 1001 ms before" in only(history)


@pytest.mark.parametrize(
    "again", [wish(10, id="x"), wish(1, id="x", type="tally.Forget"), wish(1, id="x", expectedversion="07")]
)
def test_failing_repetition_is_found(again: Wish) -> None:
    history = History([wish(1, id="x"), again])
    assert history.violations() == []
    history.decide(window=-1)
    assert "outcomes 1 decides id 'x' of 'a' again, as command 0" in described(history)[0]


@pytest.mark.covers("verifiable")
def test_duplicate_of_failed_command_is_found() -> None:
    history = History([wish(10, id="x"), wish(10, id="x")])
    assert history.violations() == []
    original = {"offset": 0, "status": "failed", "version": 0, "events": 0}
    history.outcomes[1] = without(history.outcomes[1], "reason", "message", "retryable")
    repeated = edited(history.outcomes[1], {"status": "duplicate", "original": original})
    history.outcomes[1] = edited(repeated, type="tally.Add.duplicate")
    del history.letters[1]
    what = "outcomes 1 points to a decision that was failed, which is not remembered"
    assert only(history) == what
    del history.commands[0], history.outcomes[0], history.letters[0]
    assert only(history, starts={"outcomes": 1}) == what
