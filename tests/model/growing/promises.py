"""The promises that no world may break, and the search that checks them."""

from collections import Counter
from itertools import combinations

from tests.model.explore import Counterexample, Explored, visit
from tests.model.growing.deciding import recovered
from tests.model.growing.steps import FAULTS, steps
from tests.model.growing.world import Command, Event, Forwarded, Rules, Scenario, World


def broken(scenario: Scenario, rules: Rules, world: World) -> str:
    """Return the promise that this world breaks; empty if none."""
    return _of_outcomes(world) or _of_events(scenario, world) or _of_memories(scenario, rules, world)


def _of_outcomes(world: World) -> str:
    for number, part in enumerate(world.partitions):
        offsets = Counter(one.offset for one in part.outcomes)
        if offsets and max(offsets.values()) > 1:
            return f"a command of {number} has two outcomes"
        statuses = {one.status for one in part.outcomes}
        if "NOT_RELEASED" in statuses:
            return "what an owner said again is NOT_RELEASED"
        if "WRONG_PARTITION" in statuses:
            return "a command is in the wrong partition, though it was sent by the count of its time"
    return ""


def _of_events(scenario: Scenario, world: World) -> str:
    events: dict[int, list[Event]] = {}
    for part in world.partitions:
        for event in part.events:
            events.setdefault(event.key, []).append(event)
    for found in events.values():
        found.sort(key=lambda event: event.version)
        if [one.version for one in found] != list(range(1, len(found) + 1)):
            return "versions are missing or twice"
        times = Counter(one.id for one in found)
        if times["n"] > 1 or (not scenario.deletions and max(times.values()) > 1):
            return "a command is decided twice"
        if any(_overtaken(world, *pair) for pair in combinations(found, 2)):
            return "a command is overtaken"
    return ""


def _overtaken(world: World, first: Event, second: Event) -> bool:
    """True if the later of two events belongs to a command that must be decided earlier."""
    sent = []
    for event in (first, second):
        number, at = event.cause
        command = world.partitions[number].commands[at]
        assert isinstance(command, Command)
        if command.what != "plain":
            return False
        sent.append(command.sent)
    (who, count, there, number), (other, before, there_before, earlier) = sent
    if who != other or earlier > number:
        return False
    return count == before or (there_before < there and before == there_before)


def _of_memories(scenario: Scenario, rules: Rules, world: World) -> str:
    """Check that an owner's memory equals the memory of an owner that recovers now."""
    for number, part in enumerate(world.partitions):
        for owner in part.owners:
            if owner.phase != "loop" or owner.epoch != part.epoch or owner.open is not None:
                continue
            known, found = owner.memory, recovered(rules, world, world.lineage, number)
            if scenario.deletions:
                known, found = known._replace(ids=()), found._replace(ids=())
            if known != found:
                return "an owner knows what the logs do not say"
    return ""


def stuck(world: World, labels: list[str]) -> str:
    """Return work that is left undone although only faults can happen and every partition has an up-to-date owner."""
    if any(client.sends for client in world.clients) or world.left.grows:
        return ""
    if any(not label.startswith(FAULTS) for label in labels):
        return ""
    working = world.partitions[: world.there]
    if any(not part.owners or part.owners[-1].there != world.there for part in working):
        return ""
    for part in working:
        decided = {one.offset for one in part.outcomes}
        for at, command in enumerate(part.commands):
            if isinstance(command, Forwarded):
                if command.owner is not None:
                    return "a transaction is open for ever"
            elif at not in decided:
                return "a command is never decided"
        if any(owner.memory.entries for owner in part.owners if owner.phase == "loop"):
            return "a command waits for ever"
    return ""


def explore(scenario: Scenario, rules: Rules, most: int = 10_000_000) -> Explored:
    """Visit worlds, at most `most`, until a promise is broken."""

    def wrong(world: World, labels: list[str]) -> Counterexample | None:
        return Counterexample.here(broken(scenario, rules, world) or stuck(world, labels))

    def following(world: World) -> list[tuple[str, World, str]]:
        return [(label, after, "") for label, after in steps(scenario, rules, world)]

    return visit(scenario.beginning(), following, wrong, most)
