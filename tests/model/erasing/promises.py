"""The promises that no world may break."""

from cqrs_cli.core.aggregate.erased import ERASED
from tests.model.erasing.deciding import recover_memory
from tests.model.erasing.note import active_kid, decrypt_message, message_kid, text_of
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
        return "the projection treats an event as erased that was not erased"
    if "DAMAGED" in world.projection.rows:
        return "an erased event is decrypted with another key, which looks like damage"
    if any(event.status == "ID_REUSED" for event in world.outcomes):
        return "a repeated command is ID_REUSED"
    if any(event.type != ERASED and message_kid("event", event.data) is None for event in world.events):
        return "a command is decided with a redacted text"
    return _check_keys(world) or _check_memory(rules, world)


def _last_erasure(world: World) -> int:
    """Return the index of the last `Erased` event, -1 without one."""
    return max((index for index, event in enumerate(world.events) if event.type == ERASED), default=-1)


def _check_keys(world: World) -> str:
    record = last_record(world.keys)
    kid = None if record is None else record.kid
    kids_in_use = {message_kid("event", event.data) for event in world.events[_last_erasure(world) + 1 :]}
    return "a text that was not erased has lost its key" if kids_in_use - {kid} else ""


def _check_memory(rules: Rules, world: World) -> str:
    """Check that an owner's memory equals the memory of an owner that starts now, from any copy. Empty if it does."""
    owner = world.owner
    if owner is None or owner.transaction is not None or owner.owes_tombstone:
        return ""
    for copy in world.copies.values():
        recovered_memory = recover_memory(rules, world, copy)
        if active_kid(recovered_memory.subject_keys) != active_kid(owner.memory.subject_keys):
            return "an owner has another key than an owner that starts now"
        if recovered_memory.state != owner.memory.state:
            return "an owner has another state than an owner that starts now"
    return ""


def find_readable_text(rules: Rules, world: World, labels: list[str]) -> str:
    """Return where an erased text is still readable although only faults can happen now; empty if nowhere."""
    owner = world.owner
    if owner is None or owner.position < len(world.commands) or owner.transaction is not None:
        return ""
    if any(not label.startswith(FAULT) for label in labels):
        return ""
    if sum(not isinstance(record, CompactedRecord) for record in world.keys) > 1:
        return ""  # compaction has not finished
    if (
        not rules.repeats_erasures
        and world.events
        and not world.is_erased
        and not world.unsent
        and not world.remaining_faults.restores
    ):
        return "a restored backup contains an erased text"
    return _check_erased_texts(world, world.events[: _last_erasure(world) + 1])


def _check_erased_texts(world: World, erased_events: tuple[Event, ...]) -> str:
    kids_by_data = {
        event.data: message_kid("event", event.data) for event in erased_events if event.type != ERASED
    }
    record = last_record(world.keys)
    subject_keys_list = [
        world.projection.subject_keys,
        world.cache.subject_keys,
        *(copy.cache.subject_keys for copy in world.copies.values()),
    ]
    subject_keys_list += [world.owner.memory.subject_keys] if world.owner else []
    existing_kids = {active_kid(subject_keys) for subject_keys in subject_keys_list}
    existing_kids |= set() if record is None else {record.kid}
    if (existing_kids - {None}) & set(kids_by_data.values()):
        return "the key of an erased text still exists"
    texts = {text_of(decrypt_message("event", data, kid)) for data, kid in kids_by_data.items()}
    if texts & world.projection.rows:
        return "a row of the projection contains an erased text"
    if any(
        text_of(copy.state) in texts
        for copy in world.copies.values()
        if message_kid("state", copy.state) is None
    ):
        return "a shard or a checkpoint contains an erased text"
    return ""
