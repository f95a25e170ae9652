"""The search for a broken promise, and the check that a later run can always decide the remaining commands."""

from functools import lru_cache

from tests.model.explore import Counterexample, SearchResult, visit
from tests.model.sharing import broker
from tests.model.sharing.steps import steps
from tests.model.sharing.world import Key, Rules, Scenario, World, waiting


def explore(scenario: Scenario, rules: Rules, max_worlds: int = 10_000_000) -> SearchResult:
    """Visit worlds, at most `max_worlds`, until a promise is broken."""
    find_stall = lru_cache(maxsize=None)(lambda world: _find_stall(scenario, rules, world))

    def check_world(world: World, _: list[str]) -> Counterexample | None:
        return Counterexample.here(_check_parts(world)) or find_stall(_without_workers(scenario, world))

    return visit(
        scenario.first_world(), lambda world: [*steps(scenario, rules, world)], check_world, max_worlds
    )


def _check_parts(world: World) -> str:
    """Return a broken promise if a reader sees a part of a transaction that was aborted in another part."""
    for partition in world.partitions:
        if partition.commit.position > sum(slot.status != "aborted" for slot in partition.log):
            return "the committed offset is after the last outcome"
    for key in world.keys:
        outcomes = world.partitions[key.partition].log
        is_needed = any(slot == key.slot._replace(status="committed") for slot in outcomes)
        if key.slot.status == "aborted" and is_needed and not _has_other_key(world, key):
            return "a committed outcome has lost its key"
    return ""


def _has_other_key(world: World, lost: Key) -> bool:
    return any(
        key.slot.status != "aborted"
        and (key.partition, key.slot.command) == (lost.partition, lost.slot.command)
        for key in world.keys
    )


def _without_workers(scenario: Scenario, world: World) -> World:
    """Return the world in which all workers have ended, and a worker of a later run starts.

    Open transactions stay open, or end by timeout if the scenario allows that.
    """
    later = waiting(99, "Z", *(4 for _ in world.partitions))
    for id, producer in world.producers:
        if scenario.times_out and not broker.is_busy(producer):
            world = broker.fence(world, id, None)
        else:
            world = world.with_producer(id, producer._replace(holder=None))
    return world._replace(workers=(later,), faults=0, suspects=0)


def _find_stall(scenario: Scenario, rules: Rules, world: World) -> Counterexample | None:
    labels = ["all other workers end, and a later run starts"]
    while any(
        partition.outcome_count < count
        for partition, count in zip(world.partitions, scenario.commands, strict=True)
    ):
        next_step = next(steps(scenario, rules, world), None)
        if next_step is None or len(labels) > 100:
            return Counterexample("a later run cannot decide all commands", labels)
        label, world, broken_promise = next_step
        labels.append(label)
        if broken_promise:
            return Counterexample(broken_promise, labels)
    return None
