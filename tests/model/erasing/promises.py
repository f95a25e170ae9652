"""The promises that no world may break."""

from cqrs_cli.core.aggregate.erased import ERASED
from tests.model.erasing.deciding import recovered
from tests.model.erasing.note import kid_in, kid_named, open_sealed, text_of
from tests.model.erasing.steps import FAULT, last_record, steps
from tests.model.erasing.world import Event, Gone, Rules, Scenario, World
from tests.model.explore import Counterexample, Explored, visit


def explore(scenario: Scenario, rules: Rules, most: int = 10_000_000) -> Explored:
    """Visit worlds, at most `most`, until a promise is broken."""

    def wrong(world: World, labels: list[str]) -> Counterexample | None:
        return Counterexample.here(broken(rules, world) or left_over(rules, world, labels))

    def following(world: World) -> list[tuple[str, World, str]]:
        return [(label, after, "") for label, after in steps(scenario, rules, world)]

    return visit(scenario.beginning(), following, wrong, most)


def broken(rules: Rules, world: World) -> str:
    """Return the promise that this world breaks; empty if none."""
    if "LOST" in world.projection.rows:
        return "an event that nobody erased is taken for erased"
    if "DAMAGED" in world.projection.rows:
        return "an erased event is opened with another key: it fails, as damage would"
    if any(one.status == "ID_REUSED" for one in world.outcomes):
        return "a repetition is taken for another command"
    if any(one.type != ERASED and kid_named("event", one.data) is None for one in world.events):
        return "a command is decided with a placeholder for its data"
    return _of_keys(world) or _of_memory(rules, world)


def _last_erasure(world: World) -> int:
    """Return the index of the last `Erased` event, -1 without one."""
    return max((at for at, one in enumerate(world.events) if one.type == ERASED), default=-1)


def _of_keys(world: World) -> str:
    record = last_record(world.keys)
    kid = None if record is None else record.kid
    alive = {kid_named("event", one.data) for one in world.events[_last_erasure(world) + 1 :]}
    return "what was never erased has lost its key" if alive - {kid} else ""


def _of_memory(rules: Rules, world: World) -> str:
    """Check that an owner's memory equals the memory of an owner that starts now, from any copy."""
    owner = world.owner
    if owner is None or owner.open is not None or owner.owes:
        return ""
    for copy in world.copies.values():
        found = recovered(rules, world, copy)
        if kid_in(found.known) != kid_in(owner.memory.known):
            return "an owner has another key than one that starts now"
        if found.state != owner.memory.state:
            return "an owner has another state than one that starts now"
    return ""


def left_over(rules: Rules, world: World, labels: list[str]) -> str:
    """Return where an erased text is still readable although only faults can happen now; empty if nowhere."""
    owner = world.owner
    if owner is None or owner.position < len(world.commands) or owner.open is not None:
        return ""
    if any(not label.startswith(FAULT) for label in labels):
        return ""
    if sum(not isinstance(one, Gone) for one in world.keys) > 1:
        return ""  # compaction has not finished
    if (
        not rules.ledger
        and world.events
        and not world.is_erased
        and not world.todo
        and not world.left.restores
    ):
        return "a restored backup brings back what was erased"
    return _of_erased(world, world.events[: _last_erasure(world) + 1])


def _of_erased(world: World, dead: tuple[Event, ...]) -> str:
    sealed = {one.data: kid_named("event", one.data) for one in dead if one.type != ERASED}
    record = last_record(world.keys)
    there = [world.projection.known, world.cache.known, *(copy.cache.known for copy in world.copies.values())]
    there += [world.owner.memory.known] if world.owner else []
    held = {kid_in(known) for known in there}
    held |= set() if record is None else {record.kid}
    if (held - {None}) & set(sealed.values()):
        return "the key of an erased text is still somewhere"
    texts = {text_of(open_sealed("event", data, kid)) for data, kid in sealed.items()}
    if texts & world.projection.rows:
        return "an erased text stands in the projection's rows"
    if any(
        text_of(copy.state) in texts
        for copy in world.copies.values()
        if kid_named("state", copy.state) is None
    ):
        return "an erased text stands in a shard or a checkpoint"
    return ""
