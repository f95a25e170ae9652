"""The changes of code with which a run may continue."""

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
OLD_CONTRACT = contract_of(Aggregate.of("tally", DECIDER))


def objections_to(**fields: Any) -> list[str]:
    decider = dataclasses.replace(DECIDER, **fields)
    return objections({"tally": OLD_CONTRACT}, {"tally": contract_of(Aggregate.of("tally", decider))})


def test_another_decide_may_be_reloaded() -> None:
    assert objections_to() == []
    assert objections_to(decide=decide_twice) == []


def test_another_evolve_needs_a_revision() -> None:
    changed_contract = {**OLD_CONTRACT, "fold": "another digest"}
    (objection,) = objections({"tally": OLD_CONTRACT}, {"tally": changed_contract})
    assert objection.startswith(
        "tally: evolve changed, but its shards hold states of the old code; raise the revision: "
    )
    assert objection.endswith("Decider(…, revision=2)")
    assert objections({"tally": OLD_CONTRACT}, {"tally": {**changed_contract, "revision": 2}}) == []
    assert objections({"tally": OLD_CONTRACT}, {"tally": changed_contract}, in_memory=True) == []


def contract_without(part: str) -> dict[str, Any]:
    return {**OLD_CONTRACT, part: {}}


@pytest.mark.parametrize(
    ("new_contract", "messages"),
    [(contract_without("events"), ["event Counted is gone"]), (contract_without("commands"), [])],
)
def test_events_stay_and_commands_may_go(new_contract: dict[str, Any], messages: list[str]) -> None:
    new_objections = objections({"tally": OLD_CONTRACT}, {"tally": new_contract})
    assert [objection.partition("; ")[0] for objection in new_objections] == [
        f"tally: {message}" for message in messages
    ]


def test_aggregates_may_be_added_and_removed() -> None:
    assert objections({}, {"tally": OLD_CONTRACT}) == objections({"tally": OLD_CONTRACT}, {}) == []
