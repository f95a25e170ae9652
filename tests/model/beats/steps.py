"""All possible next steps, the promises of each world, and the check that a later run can always finish."""

from functools import lru_cache

from tests.model.beats import broker
from tests.model.beats.owner import OwnerTurn
from tests.model.beats.world import Logs, Rules, Scenario, Slot, Step, Steps, World, new_owner
from tests.model.explore import Counterexample, SearchResult, visit


def steps(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Yield every step that the world may take."""
    for number in range(len(world.owners)):
        yield from OwnerTurn(scenario, rules, world, number).steps()
    yield from broker.steps(scenario, rules, world)
    if world.faults:
        fewer = world._replace(faults=world.faults - 1)
        for label, after, broken_promise in faults(scenario, rules, fewer):
            yield Step(f"fault: {label}", after, broken_promise)


def faults(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Yield the faults that are possible now."""
    for number, owner in enumerate(world.owners):
        turn = OwnerTurn(scenario, rules, world, number)
        if scenario.crashes and owner.step != "gone" and owner.committed.claim is not None:
            yield turn.crash()
        if scenario.hangs:
            yield from turn.hang()
        if scenario.late_markers and owner.step == "await":
            yield Step(f"{owner} gets no answer", world.with_owner(number, owner._replace(step="restart")))
    if scenario.loses_markers:
        yield from broker.lost_markers(world)
    if scenario.outdated_logs or scenario.outdated_group:
        yield from broker.cut_off(world)
    if scenario.retention:
        yield from broker.delete_outcomes(world)


def explore(scenario: Scenario, rules: Rules, max_worlds: int = 10_000_000) -> SearchResult:
    """Visit worlds, at most `max_worlds`, until a promise is broken."""
    find_stall = lru_cache(maxsize=None)(lambda world: _find_stall(scenario, rules, world))

    def check_world(world: World, _: list[str]) -> Counterexample | None:
        return Counterexample.here(_check_parts(scenario, world)) or find_stall(_without_owners(world))

    return visit(
        scenario.first_world(), lambda world: [*steps(scenario, rules, world)], check_world, max_worlds
    )


def _check_parts(scenario: Scenario, world: World) -> str:
    """Return a broken promise if one part of a transaction is visible, and another part was aborted."""
    logs = world.logs
    for command, kind in enumerate(scenario.commands):
        outcomes = [slot for slot in logs.outcomes if slot.command == command]
        outcome = next((slot for slot in outcomes if slot.status in ("committed", "deleted")), None)
        has_failed = outcome is not None and outcome.is_failed
        log = {"accepted": logs.events, "deferred": logs.others}.get(kind, ())
        records = [slot for slot in log if slot.command == command]
        if outcome is not None and kind != "rejected" and not has_failed and not _may_exist(records):
            return "an outcome has lost its records"
        if any(slot.status == "committed" for slot in records) and not _may_exist(outcomes):
            return "a record has lost its outcome"
    return ""


def _may_exist(slots: list[Slot]) -> bool:
    return any(slot.status != "aborted" for slot in slots)


def _without_owners(world: World) -> World:
    """Return the world in which all owners have ended, no broker is outdated, and a later run starts."""
    while broker.is_busy(world):
        assert world.transaction is not None
        world = broker.write_marker(world, world.transaction.missing_markers[0])
    world = broker.fence(world, None)
    return world._replace(owners=(new_owner(99, starts=8),), outdated=None, faults=0)


def _find_stall(scenario: Scenario, rules: Rules, world: World) -> Counterexample | None:
    labels = ["all other owners end, and a later run starts"]
    while _decided_count(world.logs) < len(scenario.commands):
        next_step = next(steps(scenario, rules, world), None)
        if next_step is None or len(labels) > 200:
            return Counterexample("a later run cannot decide all commands", labels)
        label, world, broken_promise = next_step
        labels.append(label)
        if broken_promise:
            return Counterexample(broken_promise, labels)
    return None


def _decided_count(logs: Logs) -> int:
    return len({slot.command for slot in logs.outcomes if slot.status in ("committed", "deleted")})
