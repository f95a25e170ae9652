"""The promises that no world may break, and the search that checks them."""

from collections import Counter
from itertools import combinations

from tests.model.explore import Counterexample, SearchResult, visit
from tests.model.growing.deciding import recover_memory
from tests.model.growing.steps import FAULTS, steps
from tests.model.growing.world import Command, Event, Forwarded, Rules, Scenario, World


def find_broken_promise(scenario: Scenario, rules: Rules, world: World) -> str:
    """Return the promise that this world breaks; empty if none."""
    return _check_outcomes(world) or _check_events(scenario, world) or _check_memories(scenario, rules, world)


def _check_outcomes(world: World) -> str:
    for number, partition in enumerate(world.partitions):
        offsets = Counter(outcome.offset for outcome in partition.outcomes)
        if offsets and max(offsets.values()) > 1:
            return f"a command of {number} has two outcomes"
        statuses = {outcome.status for outcome in partition.outcomes}
        if "NOT_RELEASED" in statuses:
            return "a resubmitted command is NOT_RELEASED"
        if "WRONG_PARTITION" in statuses:
            return "a command is WRONG_PARTITION, although it was sent by the current count"
    return ""


def _check_events(scenario: Scenario, world: World) -> str:
    events: dict[int, list[Event]] = {}
    for partition in world.partitions:
        for event in partition.events:
            events.setdefault(event.key, []).append(event)
    for key_events in events.values():
        key_events.sort(key=lambda event: event.version)
        if [event.version for event in key_events] != list(range(1, len(key_events) + 1)):
            return "a version is missing or repeated"
        event_counts = Counter(event.id for event in key_events)
        if event_counts["n"] > 1 or (not scenario.deletions and max(event_counts.values()) > 1):
            return "a command is decided twice"
        if any(_is_overtaken(world, *pair) for pair in combinations(key_events, 2)):
            return "a command is overtaken"
    return ""


def _is_overtaken(world: World, first: Event, second: Event) -> bool:
    """True if the command of the second event had to be decided before the command of the first event."""
    sendings = []
    for event in (first, second):
        number, offset = event.cause
        command = world.partitions[number].commands[offset]
        assert isinstance(command, Command)
        if command.kind != "plain":
            return False
        sendings.append(command.sending)
    sent_later, sent_earlier = sendings
    if sent_later.client != sent_earlier.client or sent_earlier.number > sent_later.number:
        return False
    if sent_later.known_count == sent_earlier.known_count:
        return True
    knew_all_partitions = sent_earlier.known_count == sent_earlier.topic_count
    return knew_all_partitions and sent_earlier.topic_count < sent_later.topic_count


def _check_memories(scenario: Scenario, rules: Rules, world: World) -> str:
    """Check that an owner's memory equals the memory of an owner that recovers now."""
    for number, partition in enumerate(world.partitions):
        for owner in partition.owners:
            if owner.phase != "loop" or owner.epoch != partition.epoch or owner.open_outcome is not None:
                continue
            memory, recovered_memory = owner.memory, recover_memory(rules, world, world.lineage, number)
            if scenario.deletions:
                memory, recovered_memory = memory._replace(ids=()), recovered_memory._replace(ids=())
            if memory != recovered_memory:
                return "the memory of an owner differs from the logs"
    return ""


def find_unfinished_work(world: World, labels: list[str]) -> str:
    """Return work that is left undone although only faults can happen and every partition has an up-to-date owner."""
    if any(client.unsent for client in world.clients) or world.remaining_faults.repartitionings:
        return ""
    if any(not label.startswith(FAULTS) for label in labels):
        return ""
    working = world.partitions[: world.partition_count]
    if any(
        not partition.owners or partition.owners[-1].partition_count != world.partition_count
        for partition in working
    ):
        return ""
    for partition in working:
        decided = {outcome.offset for outcome in partition.outcomes}
        for offset, command in enumerate(partition.commands):
            if isinstance(command, Forwarded):
                if command.owner is not None:
                    return "a transaction stays open forever"
            elif offset not in decided:
                return "a command is never decided"
        if any(owner.memory.entries for owner in partition.owners if owner.phase == "loop"):
            return "a deferred command waits forever"
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
