"""Deciding again with the same code makes no difference, and every change of code is found."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.ownership.trials.suspects import Suspects
from cqrs_cli.proof.whatif.decided import HistoryError
from cqrs_cli.proof.whatif.difference import poison_reason_of
from tests.jobs.whatif.histories import again, code, decided_by
from tests.proof import history as tally
from tests.proof.history import (
    Add,
    Added,
    History,
    Tally,
    Wish,
    drawn,
    moved,
    seeds,
    swapped,
    wish,
    with_value,
)


def stricter(command: Add, state: Tally) -> Iterator[Added]:
    if state.total > 3:
        raise cqrs.Rejected("full", code="FULL")
    return tally.decide(command, state)


def bolder(command: Add, state: Tally) -> Iterator[Added]:
    return iter([Added(1)] * command.n) if command.n > 9 else tally.decide(command, state)


def doubling(command: Add, state: Tally) -> Iterator[Added]:
    return (Added(2 * event.by) for event in tally.decide(command, state))


def shorter(command: Add, state: Tally) -> Iterator[Added]:
    return iter([Added(sum(event.by for event in tally.decide(command, state)))])


def rewording(command: Add, state: Tally) -> Iterator[Added]:
    if command.n < 0:
        raise cqrs.Rejected("not down", code="NEGATIVE")
    return tally.decide(command, state)


def offset_of(state: Tally, event: Added) -> Tally:
    return Tally(state.total + event.by + 1)


OTHERS = [code(stricter), code(bolder), code(doubling), code(shorter), code(rewording)]


@pytest.mark.covers("whatif")
@settings(max_examples=40)
@given(seeds, st.integers(0, 60))
def test_same_code_makes_no_difference(seed: int, start: int) -> None:
    """A simulation from any command on has the states, versions and remembered ids of history."""
    assert again(History(drawn(seed)), start=start) == []


@pytest.mark.covers("whatif")
@settings(max_examples=40)
@given(seeds, st.sampled_from(OTHERS))
def test_every_changed_decision_is_found(seed: int, other: Aggregate) -> None:
    history = History(drawn(seed))
    was, would = decided_by(history, tally.AGGREGATE), decided_by(history, other)
    expected = {offset for offset in was if was[offset] != would[offset]}
    assert {
        difference.offset for difference in again(history, other) if difference.kind != "state"
    } == expected


@settings(max_examples=40)
@given(seeds, st.sampled_from(OTHERS), st.integers(0, 60))
def test_cuts_make_no_difference(seed: int, other: Aggregate, start: int) -> None:
    history = History(drawn(seed))
    assert again(history, other, start, batch=3) == again(history, other, start)


def test_changed_rule_is_told_whole() -> None:
    history = History([wish(4), wish(1, "b"), wish(2)])
    difference, state = again(history, code(stricter))
    assert (difference.kind, difference.was_result, difference.would_result) == (
        "outcome",
        "accepted",
        "rejected BUSINESS_RULE FULL",
    )
    assert (difference.partition, difference.offset, difference.subject, difference.id, difference.type) == (
        1,
        2,
        "a",
        "c2",
        "tally.Add",
    )
    assert json.loads(difference.was)["events"] == [
        {"type": "tally.Added", "version": 5, "data": {"by": 0}},
        {"type": "tally.Added", "version": 6, "data": {"by": 1}},
    ]
    assert json.loads(difference.would) == {
        **{"status": "rejected", "reason": "BUSINESS_RULE", "code": "FULL", "message": "full"},
        **{"version": 4, "events": []},
    }
    assert (state.kind, state.subject) == ("state", "a")
    assert (state.was, state.would) == (
        b'{"version":6,"state":{"total":7}}',
        b'{"version":4,"state":{"total":6}}',
    )


def test_changed_evolve_differs_in_states() -> None:
    differences = again(History([wish(1), wish(2, "b")]), code(evolve=offset_of))
    assert [(difference.kind, difference.subject, difference.would) for difference in differences] == [
        ("state", "a", b'{"version":1,"state":{"total":1}}'),
        ("state", "b", b'{"version":2,"state":{"total":3}}'),
    ]


def test_later_versions_follow_a_difference() -> None:
    differences = again(History([wish(3), wish(1), wish(1, expectedversion="4")]), code(shorter))
    assert [
        (difference.kind, difference.was_result, difference.would_result) for difference in differences[:3]
    ] == [
        ("events", "accepted", "accepted"),
        ("version", "accepted", "accepted"),
        ("outcome", "accepted", "rejected VERSION_CONFLICT"),
    ]


def test_state_begins_as_other_code_folds() -> None:
    """Events before the period are folded, and no command before it is decided."""
    history = History([wish(3), wish(1, id="x"), wish(1, id="x")])
    assert again(history, code(stricter), start=1) == []
    differences = again(history, code(stricter, offset_of), start=1)
    assert [difference.would_result for difference in differences] == [
        "rejected BUSINESS_RULE FULL",
        "duplicate",
        "exists",
    ]


def test_owner_clock_judges_expiry() -> None:
    history = History([wish(1), wish(1, expirytime="2100-01-01T00:00:00Z")])
    document = json.loads(history.outcomes[1].value or b"")
    document["data"] |= {"status": "rejected", "reason": "EXPIRED", "decidedat": "2100-01-01T00:00:01.000Z"}
    del document["data"]["events"]
    document["data"]["version"] = 1
    history.outcomes[1] = with_value(history.outcomes[1], json.dumps(document).encode())
    del history.events[1:]
    assert again(history) == []


def test_given_up_commands_are_not_asked() -> None:
    history = History([wish(1), wish(1)], refused=frozenset({1}))
    assert again(history) == []


@pytest.mark.parametrize("trial", [Suspects().after_hang(7, 60), Suspects(0, 7, 3), Suspects(0, 7, 1)])
def test_blamed_commands_are_not_asked(trial: Suspects) -> None:
    history = History([wish(10)])
    document = json.loads(history.outcomes[0].value or b"")
    assert trial.culprit is not None
    document["data"]["message"] = trial.culprit.reason
    outcome = read_outcome(json.dumps(document).encode())
    assert poison_reason_of(outcome) == trial.culprit.reason
    assert poison_reason_of(read_outcome(history.outcomes[0].value)) is None
    history.outcomes[0] = with_value(history.outcomes[0], json.dumps(document).encode())
    assert again(history, code(bolder)) == []


def test_undecided_commands_are_left_out() -> None:
    history = History([wish(1), wish(2), wish(3)])
    del history.outcomes[1:], history.events[1:]
    assert again(history) == []


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        (lambda history: history.outcomes.pop(1), "has no outcome, though later ones have"),
        (lambda history: history.commands.pop(1), "is of command 1, which does not exist"),
        (lambda history: swapped(history.outcomes, 0, 1), "has no outcome, though later ones have"),
        (lambda history: history.events.pop(0), "events are missing"),
        (
            lambda history: history.events.insert(0, moved(history.events[-1], 0)),
            "is of command 0, after those of",
        ),
    ],
)
def test_broken_history_is_refused(fault: object, complaint: str) -> None:
    history = History([wish(2), Wish(1, "b"), wish(3)])
    assert callable(fault)
    fault(history)
    with pytest.raises(HistoryError, match=complaint):
        again(history)


def test_parked_before_is_known() -> None:
    """A cancel and a repetition of a command that was deferred before the period."""
    far = {"notbefore": "2999-01-01T00:00:00Z"}
    cancel = (
        b'{"specversion":"1.0","id":"k","source":"/t","type":"cqrs.Cancel","subject":"a","data":{"id":"x"}}'
    )
    wishes = [wish(1, id="x", **far), wish(2), wish(1, id="x", **far), Wish(0, value=cancel)]
    history = History(wishes)
    statuses = [read_outcome(record.value).data.status for record in history.outcomes]
    assert statuses == ["deferred", "accepted", "duplicate", "unchanged"]
    for begin in history.commands:
        assert again(history, start=begin.offset) == []
