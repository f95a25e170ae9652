"""The changes with which a run may continue."""

import dataclasses
from typing import Any

import pytest

import cqrs_cli as cqrs
from cqrs_cli.cli.reload.rules import objections
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.compatibility import contract_of


class Count(cqrs.Command):
    by: int = 1


class Counted(cqrs.Event):
    by: int


class Tally(cqrs.State):
    total: int = 0


def decide(command: Count, tally: Tally) -> list[Counted]:
    return [Counted(command.by)]


def decide_twice(command: Count, tally: Tally) -> list[Counted]:
    return [Counted(command.by), Counted(command.by)]


def evolve(tally: Tally, event: Counted) -> Tally:
    return cqrs.replace(tally, total=tally.total + event.by)


DECIDER = cqrs.Decider(decide, evolve, initial=Tally())
BEFORE = contract_of(Aggregate.of("tally", DECIDER))


def said(**changed: Any) -> list[str]:
    decider = dataclasses.replace(DECIDER, **changed)
    return objections({"tally": BEFORE}, {"tally": contract_of(Aggregate.of("tally", decider))})


def test_another_decide_is_fine() -> None:
    assert said() == []
    assert said(decide=decide_twice) == []


def test_another_evolve_needs_a_revision() -> None:
    otherwise = {**BEFORE, "fold": "another digest"}
    (why,) = objections({"tally": BEFORE}, {"tally": otherwise})
    assert why.startswith(
        "tally: evolve changed, but its shards hold states of the old code; raise the revision: "
    )
    assert why.endswith("Decider(…, revision=2)")
    assert objections({"tally": BEFORE}, {"tally": {**otherwise, "revision": 2}}) == []
    assert objections({"tally": BEFORE}, {"tally": otherwise}, in_memory=True) == []


def without(part: str) -> dict[str, Any]:
    return {**BEFORE, part: {}}


@pytest.mark.parametrize(
    ("today", "why"),
    [(without("events"), ["event Counted is gone"]), (without("commands"), [])],
)
def test_events_stay_and_commands_may_go(today: dict[str, Any], why: list[str]) -> None:
    found_objections = objections({"tally": BEFORE}, {"tally": today})
    assert [objection.partition("; ")[0] for objection in found_objections] == [
        f"tally: {reason}" for reason in why
    ]


def test_new_aggregates_are_fine() -> None:
    assert objections({}, {"tally": BEFORE}) == objections({"tally": BEFORE}, {}) == []
