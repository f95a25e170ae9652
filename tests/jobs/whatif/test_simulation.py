"""Deciding again with the same code makes no difference, and every change of code is found."""

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.messages.outcome import read_outcome
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.ownership.poison_detection.suspects import Suspects
from cqrs_cli.proof.whatif.decided import HistoryError, decoded_events
from cqrs_cli.proof.whatif.difference import poison_reason_of
from cqrs_cli.scans.whatif.folded_states import FoldedStates
from cqrs_cli.scans.whatif.stores import open_stores
from tests.jobs.whatif.histories import decisions_of, differences_of, tally_with
from tests.proof import history as tally
from tests.proof.history import (
    AGGREGATE,
    WINDOW,
    Add,
    Added,
    History,
    PlannedCommand,
    Tally,
    plan_command,
    random_commands,
    seeds,
    swap_records,
    with_offset,
    with_value,
)


def decide_stricter(command: Add, state: Tally) -> Iterator[Added]:
    if state.total > 3:
        raise cqrs.Rejected("full", code="FULL")
    return tally.decide(command, state)


def decide_bolder(command: Add, state: Tally) -> Iterator[Added]:
    return iter([Added(1)] * command.n) if command.n > 9 else tally.decide(command, state)


def decide_doubling(command: Add, state: Tally) -> Iterator[Added]:
    return (Added(2 * event.by) for event in tally.decide(command, state))


def decide_shorter(command: Add, state: Tally) -> Iterator[Added]:
    return iter([Added(sum(event.by for event in tally.decide(command, state)))])


def decide_rewording(command: Add, state: Tally) -> Iterator[Added]:
    if command.n < 0:
        raise cqrs.Rejected("not down", code="NEGATIVE")
    return tally.decide(command, state)


def evolve_with_offset(state: Tally, event: Added) -> Tally:
    return Tally(state.total + event.by + 1)


CHANGED_CODE = [
    tally_with(decide_stricter),
    tally_with(decide_bolder),
    tally_with(decide_doubling),
    tally_with(decide_shorter),
    tally_with(decide_rewording),
]


@pytest.mark.covers("whatif")
@settings(max_examples=40)
@given(seeds, st.integers(0, 60))
def test_same_code_makes_no_difference(seed: int, start: int) -> None:
    """A simulation from any command on has the states, versions and remembered ids of history."""
    assert differences_of(History(random_commands(seed)), start=start) == []


@pytest.mark.covers("whatif")
@settings(max_examples=40)
@given(seeds, st.sampled_from(CHANGED_CODE))
def test_every_changed_decision_is_found(seed: int, other: Aggregate) -> None:
    history = History(random_commands(seed))
    was, would = decisions_of(history, tally.AGGREGATE), decisions_of(history, other)
    expected = {offset for offset in was if was[offset] != would[offset]}
    assert {
        difference.offset for difference in differences_of(history, other) if difference.kind != "state"
    } == expected


@settings(max_examples=40)
@given(seeds, st.sampled_from(CHANGED_CODE), st.integers(0, 60))
def test_batches_make_no_difference(seed: int, other: Aggregate, start: int) -> None:
    history = History(random_commands(seed))
    assert differences_of(history, other, start, batch=3) == differences_of(history, other, start)


def test_difference_contains_both_decisions() -> None:
    history = History([plan_command(4), plan_command(1, "b"), plan_command(2)])
    difference, state = differences_of(history, tally_with(decide_stricter))
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
    differences = differences_of(
        History([plan_command(1), plan_command(2, "b")]), tally_with(evolve=evolve_with_offset)
    )
    assert [(difference.kind, difference.subject, difference.would) for difference in differences] == [
        ("state", "a", b'{"version":1,"state":{"total":1}}'),
        ("state", "b", b'{"version":2,"state":{"total":3}}'),
    ]


def test_later_versions_follow_a_difference() -> None:
    differences = differences_of(
        History([plan_command(3), plan_command(1), plan_command(1, expectedversion="4")]),
        tally_with(decide_shorter),
    )
    assert [
        (difference.kind, difference.was_result, difference.would_result) for difference in differences[:3]
    ] == [
        ("events", "accepted", "accepted"),
        ("version", "accepted", "accepted"),
        ("outcome", "accepted", "rejected VERSION_CONFLICT"),
    ]


def test_state_begins_as_other_code_folds() -> None:
    """Events before the period are folded, and no command before it is decided."""
    history = History([plan_command(3), plan_command(1, id="x"), plan_command(1, id="x")])
    assert differences_of(history, tally_with(decide_stricter), start=1) == []
    differences = differences_of(history, tally_with(decide_stricter, evolve_with_offset), start=1)
    assert [difference.would_result for difference in differences] == [
        "rejected BUSINESS_RULE FULL",
        "duplicate",
        "exists",
    ]


def test_owner_clock_judges_expiry() -> None:
    history = History([plan_command(1), plan_command(1, expirytime="2100-01-01T00:00:00Z")])
    document = json.loads(history.outcomes[1].value or b"")
    document["data"] |= {"status": "rejected", "reason": "EXPIRED", "decidedat": "2100-01-01T00:00:01.000Z"}
    del document["data"]["events"]
    document["data"]["version"] = 1
    history.outcomes[1] = with_value(history.outcomes[1], json.dumps(document).encode())
    del history.events[1:]
    assert differences_of(history) == []


def test_given_up_commands_are_not_simulated() -> None:
    history = History([plan_command(1), plan_command(1)], refused=frozenset({1}))
    assert differences_of(history) == []


@pytest.mark.parametrize("suspects", [Suspects().after_hang(7, 60), Suspects(0, 7, 3), Suspects(0, 7, 1)])
def test_poison_commands_are_not_simulated(suspects: Suspects) -> None:
    history = History([plan_command(10)])
    document = json.loads(history.outcomes[0].value or b"")
    assert suspects.culprit is not None
    document["data"]["message"] = suspects.culprit.reason
    outcome = read_outcome(json.dumps(document).encode())
    assert poison_reason_of(outcome) == suspects.culprit.reason
    assert poison_reason_of(read_outcome(history.outcomes[0].value)) is None
    history.outcomes[0] = with_value(history.outcomes[0], json.dumps(document).encode())
    assert differences_of(history, tally_with(decide_bolder)) == []


def test_undecided_commands_are_left_out() -> None:
    history = History([plan_command(1), plan_command(2), plan_command(3)])
    del history.outcomes[1:], history.events[1:]
    assert differences_of(history) == []


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (lambda history: history.outcomes.pop(1), "has no outcome, though later ones have"),
        (lambda history: history.commands.pop(1), "is of command 1, which does not exist"),
        (lambda history: swap_records(history.outcomes, 0, 1), "has no outcome, though later ones have"),
        (lambda history: history.events.pop(0), "events are missing"),
        (
            lambda history: history.events.insert(0, with_offset(history.events[-1], 0)),
            "is of command 0, but follows the events of command",
        ),
    ],
)
def test_broken_history_is_refused(fault: object, message: str) -> None:
    history = History([plan_command(2), PlannedCommand(1, "b"), plan_command(3)])
    assert callable(fault)
    fault(history)
    with pytest.raises(HistoryError, match=message):
        differences_of(history)


def test_earlier_deferred_command_is_known() -> None:
    """A cancel and a repetition of a command that was deferred before the period."""
    not_before = {"notbefore": "2999-01-01T00:00:00Z"}
    cancel = (
        b'{"specversion":"1.0","id":"k","source":"/t","type":"cqrs.Cancel","subject":"a","data":{"id":"x"}}'
    )
    planned = [
        plan_command(1, id="x", **not_before),
        plan_command(2),
        plan_command(1, id="x", **not_before),
        PlannedCommand(0, value=cancel),
    ]
    history = History(planned)
    statuses = [read_outcome(record.value).data.status for record in history.outcomes]
    assert statuses == ["deferred", "accepted", "duplicate", "unchanged"]
    for command in history.commands:
        assert differences_of(history, start=command.offset) == []


def test_changed_states_wait_within_the_budget() -> None:
    """`max_waiting_states` is one state for this budget, and the events change two aggregates."""
    history = History([plan_command(1, subject) for subject in ("a", "b", "a")])
    events = list(decoded_events(history.events))
    with ExitStack() as stack:
        store, _ = open_stores(stack, WINDOW)
        states = FoldedStates(AGGREGATE, StateCache(AGGREGATE, store, store.token(), budget=1))
        states.fold(events[:2])
        assert [(subject, stored.version) for subject, stored in store.items()] == [("a", 1), ("b", 1)]
        states.fold(events[2:])
        states.flush()
        assert [(subject, stored.version) for subject, stored in store.items()] == [("a", 2), ("b", 1)]
