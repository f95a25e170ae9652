"""The promises that no world may break, and the search that checks them."""

from collections import Counter
from itertools import combinations

from tests.model.explore import Counterexample, SearchResult, visit
from tests.model.growing.deciding import recover_memory
from tests.model.growing.steps import FAULTS, steps
from tests.model.growing.world import Command, Event, Forwarded, Rules, Scenario, World


def find_broken_promise(scenario: Scenario, rules: Rules, world: World) -> str:
    """Return the promise that this world breaks; empty if none."""
    return _of_outcomes(world) or _of_events(scenario, world) or _of_memories(scenario, rules, world)


def _of_outcomes(world: World) -> str:
    for number, part in enumerate(world.partitions):
        offsets = Counter(outcome.offset for outcome in part.outcomes)
        if offsets and max(offsets.values()) > 1:
            return f"a command of {number} has two outcomes"
        statuses = {outcome.status for outcome in part.outcomes}
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
    for key_events in events.values():
        key_events.sort(key=lambda event: event.version)
        if [event.version for event in key_events] != list(range(1, len(key_events) + 1)):
            return "versions are missing or twice"
        times = Counter(event.id for event in key_events)
        if times["n"] > 1 or (not scenario.deletions and max(times.values()) > 1):
            return "a command is decided twice"
        if any(_overtaken(world, *pair) for pair in combinations(key_events, 2)):
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
    (client, count, topic_count, number), (other_client, before, topic_count_before, earlier) = sent
    if client != other_client or earlier > number:
        return False
    return count == before or (topic_count_before < topic_count and before == topic_count_before)


def _of_memories(scenario: Scenario, rules: Rules, world: World) -> str:
    """Check that an owner's memory equals the memory of an owner that recovers now."""
    for number, part in enumerate(world.partitions):
        for owner in part.owners:
            if owner.phase != "loop" or owner.epoch != part.epoch or owner.open is not None:
                continue
            memory, recovered_memory = owner.memory, recover_memory(rules, world, world.lineage, number)
            if scenario.deletions:
                memory, recovered_memory = memory._replace(ids=()), recovered_memory._replace(ids=())
            if memory != recovered_memory:
                return "an owner knows what the logs do not say"
    return ""


def find_unfinished_work(world: World, labels: list[str]) -> str:
    """Return work that is left undone although only faults can happen and every partition has an up-to-date owner."""
    if any(client.unsent for client in world.clients) or world.remaining_faults.repartitionings:
        return ""
    if any(not label.startswith(FAULTS) for label in labels):
        return ""
    working = world.partitions[: world.partition_count]
    if any(not part.owners or part.owners[-1].partition_count != world.partition_count for part in working):
        return ""
    for part in working:
        decided = {outcome.offset for outcome in part.outcomes}
        for at, command in enumerate(part.commands):
            if isinstance(command, Forwarded):
                if command.owner is not None:
                    return "a transaction is open for ever"
            elif at not in decided:
                return "a command is never decided"
        if any(owner.memory.entries for owner in part.owners if owner.phase == "loop"):
            return "a command waits for ever"
    return ""


def explore(scenario: Scenario, rules: Rules, max_worlds: int = 10_000_000) -> SearchResult:
    """Visit worlds, at most `max_worlds`, until a promise is broken."""

    def check_world(world: World, labels: list[str]) -> Counterexample | None:
        return Counterexample.here(
            find_broken_promise(scenario, rules, world) or find_unfinished_work(world, labels)
        )

    def next_steps(world: World) -> list[tuple[str, World, str]]:
        return [(label, after, "") for label, after in steps(scenario, rules, world)]

    return visit(scenario.first_world(), next_steps, check_world, max_worlds)
