"""The rules for deferred commands find nothing in any history of the model, and find each planted fault."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from msgspec.structs import replace

from cqrs_cli.core.deferral.entry import read_deferral
from tests.core.deferral.random_histories import random_world
from tests.core.deferral.world import SCENARIOS, TOPIC, World, first_world, steps
from tests.proof.deferral_histories import DECIDED, WAITING, simulate, violations_in, violations_in_pieces
from tests.proof.history import seeds

#: The number of histories of each scenario that are verified.
SAMPLE_SIZE = 40


@pytest.mark.covers("verifiable")
@pytest.mark.parametrize("scenario", [name for name in SCENARIOS if name != "skipped"])
def test_clean_deferrals_are_silent(scenario: str) -> None:
    """A correct history has no violation at any moment: deferred, resubmitted, cancelled, decided."""
    unvisited = [first_world(scenario)]
    worlds = dict.fromkeys(unvisited)
    while unvisited and len(worlds) < 20 * SAMPLE_SIZE:
        for next_world in steps(unvisited.pop(0)):
            if next_world not in worlds:
                worlds[next_world] = None
                unvisited.append(next_world)
    sample = sorted((world for world in worlds if world.is_up), key=lambda world: len(world.outcomes))
    for world in sample[:: max(1, len(sample) // SAMPLE_SIZE)]:
        assert violations_in(world) == []
        assert violations_in(world, deleted=min(1, world.position)) == []


@pytest.mark.covers("verifiable")
@settings(max_examples=150, deadline=None)
@given(seeds)
def test_any_commands_cause_no_violation(seed: int) -> None:
    """No commands of clients, about any ids and decided at any time, cause a violation."""
    assert violations_in(random_world(seed)) == []


def outcome(number: int, old: bytes, new: bytes) -> Callable[[World], World]:
    """Replace a text in an outcome."""

    def change(world: World) -> World:
        outcomes = list(world.outcomes)
        value, timestamp = outcomes[number]
        assert old in value
        outcomes[number] = value.replace(old, new), timestamp
        return world._replace(outcomes=tuple(outcomes))

    return change


def entry(**members: Any) -> Callable[[World], World]:
    """Change the last entry of the deferred topic. `is_removed` deletes it."""

    def change(world: World) -> World:
        last = world.topic[-1]
        assert last is not None and last[1] is not None
        value = (
            None
            if "is_removed" in members
            else replace(read_deferral(last[0].encode(), last[1]), **members).value()
        )
        return world._replace(topic=(*world.topic[:-1], (last[0], value)))

    return change


CANCELLED = simulate("x", "cancel")
COPIED = simulate("late", "copy", "y")


def test_simulations_end_as_expected() -> None:
    results = [
        [outcome.data.reason or outcome.data.status for outcome in world.read()]
        for world in (WAITING, DECIDED, CANCELLED)
    ]
    assert results == [["NOT_YET"], ["NOT_YET", "accepted"], ["NOT_YET", "unchanged", "CANCELLED"]]
    for world in (WAITING, DECIDED, CANCELLED, COPIED):
        assert violations_in(world) == []
        assert [violations_in_pieces(world, world, cut) for cut in range(world.position)] == [
            []
        ] * world.position


@pytest.mark.parametrize(
    ("world", "fault", "problem"),
    [
        (WAITING, entry(is_removed=True), "is missing in the deferred topic"),
        (WAITING, entry(cancelled=True), "says that command 0 is cancelled"),
        (
            WAITING,
            entry(resubmitted_offset=7, resubmitted_topic_id=TOPIC),
            "was resubmitted at 7: that record is another command",
        ),
        (WAITING, outcome(0, b'"due":', b'"dues":'), "without a time when it is due"),
        (
            DECIDED,
            lambda world: world._replace(topic=world.topic[:-1]),
            "is of command 0, which is not deferred",
        ),
        (DECIDED, outcome(1, b'"0/0"}', b'"0/9"}'), "says deferredfrom '0/9'"),
        (DECIDED, outcome(1, b',"deferredfrom":"0/0"', b""), "no owner has resubmitted its command"),
        (DECIDED, outcome(1, b'"x"', b'"z"'), "has another subject or id"),
        (CANCELLED, outcome(1, b'"offset":0}', b'"offset":5}'), "is about command 5, which is not deferred"),
        (CANCELLED, outcome(2, b'"CANCELLED"', b'"GAVE_UP"'), "though command 0 was cancelled"),
        (DECIDED, outcome(0, b'"NOT_YET"', b'"CANCELLED"'), "is deferred with the reason CANCELLED"),
    ],
)
def test_planted_fault_is_found(world: World, fault: Callable[[World], World], problem: str) -> None:
    faulty_world = fault(world)
    violations = violations_in(faulty_world)
    assert any(problem in violation for violation in violations), violations
    for cut in range(world.position + 1):
        assert violations_in_pieces(faulty_world, world, cut) == violations


def test_second_decision_is_found() -> None:
    """The command is resubmitted and decided a second time."""
    value, timestamp = DECIDED.outcomes[1]
    second_outcome = (
        value.replace(b'"0/1"', b'"0/2"')
        .replace(b'"offset":1', b'"offset":2')
        .replace(b'"version":1', b'"version":2')
    )
    event = DECIDED.events[0][0].replace(b'"0/1/0"', b'"0/2/0"').replace(b'version":1', b'version":2')
    world = DECIDED._replace(
        commands=(*DECIDED.commands, DECIDED.commands[1]),
        outcomes=(*DECIDED.outcomes, (second_outcome, timestamp)),
        events=(*DECIDED.events, (event, timestamp)),
        position=3,
    )
    assert any("is not deferred any more" in violation for violation in violations_in(world))
