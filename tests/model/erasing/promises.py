"""The promises that no world may break."""

from cqrs_cli.core.aggregate.erased import ERASED
from tests.model.erasing.deciding import recover_memory
from tests.model.erasing.note import decrypt_message, kid_in, kid_named, text_of
from tests.model.erasing.steps import FAULT, last_record, steps
from tests.model.erasing.world import CompactedRecord, Event, Rules, Scenario, World
from tests.model.explore import Counterexample, SearchResult, visit


def explore(scenario: Scenario, rules: Rules, max_worlds: int = 10_000_000) -> SearchResult:
    """Visit worlds, at most `max_worlds`, until a promise is broken."""

    def check_world(world: World, labels: list[str]) -> Counterexample | None:
        return Counterexample.here(
            find_broken_promise(rules, world) or find_readable_text(rules, world, labels)
        )

    def next_steps(world: World) -> list[tuple[str, World, str]]:
        return [(label, after, "") for label, after in steps(scenario, rules, world)]

    return visit(scenario.first_world(), next_steps, check_world, max_worlds)


def find_broken_promise(rules: Rules, world: World) -> str:
    """Return the promise that this world breaks; empty if none."""
    if "LOST" in world.projection.rows:
        return "an event that nobody erased is taken for erased"
    if "DAMAGED" in world.projection.rows:
        return "an erased event is opened with another key: it fails, as damage would"
    if any(event.status == "ID_REUSED" for event in world.outcomes):
        return "a repetition is taken for another command"
    if any(event.type != ERASED and kid_named("event", event.data) is None for event in world.events):
        return "a command is decided with a placeholder for its data"
    return _of_keys(world) or _of_memory(rules, world)


def _last_erasure(world: World) -> int:
    """Return the index of the last `Erased` event, -1 without one."""
    return max((index for index, event in enumerate(world.events) if event.type == ERASED), default=-1)


def _of_keys(world: World) -> str:
    record = last_record(world.keys)
    kid = None if record is None else record.kid
    kids_in_use = {kid_named("event", event.data) for event in world.events[_last_erasure(world) + 1 :]}
    return "what was never erased has lost its key" if kids_in_use - {kid} else ""


def _of_memory(rules: Rules, world: World) -> str:
    """Check that an owner's memory equals the memory of an owner that starts now, from any copy."""
    owner = world.owner
    if owner is None or owner.open is not None or owner.owes_tombstone:
        return ""
    for copy in world.copies.values():
        recovered_memory = recover_memory(rules, world, copy)
        if kid_in(recovered_memory.known) != kid_in(owner.memory.known):
            return "an owner has another key than one that starts now"
        if recovered_memory.state != owner.memory.state:
            return "an owner has another state than one that starts now"
    return ""


def find_readable_text(rules: Rules, world: World, labels: list[str]) -> str:
    """Return where an erased text is still readable although only faults can happen now; empty if nowhere."""
    owner = world.owner
    if owner is None or owner.position < len(world.commands) or owner.open is not None:
        return ""
    if any(not label.startswith(FAULT) for label in labels):
        return ""
    if sum(not isinstance(record, CompactedRecord) for record in world.keys) > 1:
        return ""  # compaction has not finished
    if (
        not rules.ledger
        and world.events
        and not world.is_erased
        and not world.todo
        and not world.remaining_faults.restores
    ):
        return "a restored backup brings back what was erased"
    return _of_erased(world, world.events[: _last_erasure(world) + 1])


def _of_erased(world: World, erased_events: tuple[Event, ...]) -> str:
    kids_by_data = {
        event.data: kid_named("event", event.data) for event in erased_events if event.type != ERASED
    }
    record = last_record(world.keys)
    key_tables = [
        world.projection.known,
        world.cache.known,
        *(copy.cache.known for copy in world.copies.values()),
    ]
    key_tables += [world.owner.memory.known] if world.owner else []
    existing_kids = {kid_in(known) for known in key_tables}
    existing_kids |= set() if record is None else {record.kid}
    if (existing_kids - {None}) & set(kids_by_data.values()):
        return "the key of an erased text is still somewhere"
    texts = {text_of(decrypt_message("event", data, kid)) for data, kid in kids_by_data.items()}
    if texts & world.projection.rows:
        return "an erased text stands in the projection's rows"
    if any(
        text_of(copy.state) in texts
        for copy in world.copies.values()
        if kid_named("state", copy.state) is None
    ):
        return "an erased text stands in a shard or a checkpoint"
    return ""
