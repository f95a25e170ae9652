"""All possible next steps of a world, each with a label."""

from collections.abc import Iterator

from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encryption import DamagedValueError
from cqrs_cli.keys.topic import WrappedKey
from tests.model.erasing.deciding import decide, recovered
from tests.model.erasing.note import kid_ended, kid_in, kid_named, open_sealed, open_with, seal, text_of
from tests.model.erasing.world import (
    Backup,
    Cache,
    Command,
    Copy,
    Event,
    Gone,
    KeyRecord,
    Open,
    Outcome,
    Owner,
    Projection,
    Rules,
    Scenario,
    World,
)

Steps = Iterator[tuple[str, World]]

#: Prefix of the labels of steps that need not happen.
FAULT = "fault:"


def steps(scenario: Scenario, rules: Rules, world: World) -> Steps:
    """Yield every step that the world may take."""
    if world.todo:
        sent, *rest = world.todo
        yield f"a client sends {sent.id}", world._replace(commands=(*world.commands, sent), todo=tuple(rest))
    yield from _of_broker(world)
    yield from _of_copies(rules, world)
    yield from _of_operators(rules, world)
    if world.owner is None:
        yield from _of_starts(rules, world)
    else:
        yield from _of_owner(scenario, rules, world, world.owner)
    if scenario.projects:
        yield from _of_projection(rules, world, world.projection)


def last_record(keys: tuple[KeyRecord, ...]) -> WrappedKey | None:
    """Return the last record of the aggregate's key."""
    return next((one for one in reversed(keys) if not isinstance(one, Gone)), None)


def _of_broker(world: World) -> Steps:
    events, keys = len(world.events), len(world.keys)
    if world.shown[0] < events:
        yield "the events show", world._replace(shown=(events, world.shown[1]))
    if world.shown[1] < keys:
        yield "the keys show", world._replace(shown=(world.shown[0], keys))
    there = [at for at, one in enumerate(world.keys) if not isinstance(one, Gone)]
    if not (world.left.compactions and there and world.shown[1] == keys):
        return
    left = world.spend(compactions=world.left.compactions - 1)
    if len(there) > 1:
        kept = tuple(one if at == there[-1] else Gone() for at, one in enumerate(world.keys))
        yield f"{FAULT} compaction", world._replace(keys=kept, left=left)
    elif world.keys[there[-1]] is None:
        yield f"{FAULT} the tombstone goes", world._replace(keys=(Gone(),) * keys, left=left)


def _of_copies(rules: Rules, world: World) -> Steps:
    shard, left = world.shard, world.left
    if shard is None:
        return
    if left.losses and world.owner is None:
        lost = world.spend(losses=left.losses - 1)
        yield f"{FAULT} the disk is lost", world._replace(shard=None, cache=Cache(), left=lost)
    copy = shard if rules.keys_not_in_checkpoints else shard._replace(cache=world.cache)
    if left.checkpoints and copy != world.checkpoint:
        written = world.spend(checkpoints=left.checkpoints - 1)
        yield f"{FAULT} a checkpoint", world._replace(checkpoint=copy, left=written)


def _of_operators(rules: Rules, world: World) -> Steps:
    left, saved = world.left, world.backup
    if isinstance(left.rewraps, WrappedKey):
        keys = (*world.keys, left.rewraps)
        yield f"{FAULT} the tool writes the key", world._replace(keys=keys, left=world.spend(rewraps=0))
    elif left.rewraps and not rules.owner_wraps and (record := last_record(world.keys)) is not None:
        yield f"{FAULT} a tool reads the key", world._replace(left=world.spend(rewraps=record))
    if not left.restores:
        return
    if saved is None:
        if world.owner is None and world.events:
            made = Backup(world.commands, world.events, world.outcomes, world.keys, world.parked)
            yield f"{FAULT} a backup", world._replace(backup=made)
    elif (saved.events, saved.keys) != (world.events, world.keys):
        yield f"{FAULT} the backup is restored", _restored(rules, world, saved)


def _restored(rules: Rules, world: World, saved: Backup) -> World:
    was_erased = any(one.type == ERASED for one in world.events)
    again = (Command("erase", "E again"),) if rules.ledger and was_erased else ()
    return World(
        (*world.todo, *again),
        world.spend(restores=world.left.restores - 1),
        saved.commands,
        saved.events,
        saved.outcomes,
        saved.keys,
        (len(saved.events), len(saved.keys)),
        saved.parked,
        drawn=world.drawn,
    )


def _of_starts(rules: Rules, world: World) -> Steps:
    if not world.left.starts:
        return
    position = max((one.offset + 1 for one in world.outcomes), default=0)
    ids = {
        one.id: one.mark
        for one in world.outcomes
        if one.status in ("accepted", "rejected") and not one.id.startswith("E")
    }
    shown = len(world.events), len(world.keys)  # its fence has ended every open transaction
    left = world.spend(starts=world.left.starts - 1)
    for name, copy in world.copies.items():
        if name == "nothing" and world.shard is not None:
            continue
        memory = recovered(rules, world, copy)._replace(ids=tuple(sorted(ids.items())))
        after = world._replace(owner=Owner(position, memory), shown=shown, left=left)
        yield f"{FAULT} an owner starts from {name}", after


def _of_owner(scenario: Scenario, rules: Rules, world: World, owner: Owner) -> Steps:
    if world.left.crashes:
        left = world.spend(crashes=world.left.crashes - 1)
        yield f"{FAULT} the owner dies", world._replace(owner=None, left=left)
    if owner.owes:
        keys = (*world.keys, None)
        yield "the tombstone is written", world._replace(keys=keys, owner=owner._replace(owes=False))
    elif owner.open is not None:
        yield _commit(world, owner.open)
    else:
        yield from _of_idle_owner(rules, world, owner)
        for size in range(1, min(scenario.batch, len(world.commands) - owner.position) + 1):
            yield _decide(rules, world, owner, size)


def _commit(world: World, done: Open) -> tuple[str, World]:
    return "commits", world._replace(
        events=(*world.events, *done.events),
        outcomes=(*world.outcomes, *done.outcomes),
        keys=(*world.keys, *done.keys),
        parked=done.parked,
        owner=Owner(done.position, done.memory, owes=done.later),
    )


def _of_idle_owner(rules: Rules, world: World, owner: Owner) -> Steps:
    memory, parked = owner.memory, world.parked
    plain = encode_json(memory.state)
    state = seal("state", text_of(plain), kid_in(memory.known)) if rules.sealed_states else plain
    shard, cache = Copy(len(world.events), state), Cache(memory.known, len(world.keys))
    if world.cache != cache:
        yield "the cache is written", world._replace(cache=cache)
    if world.shard != shard and (world.cache == cache or not rules.cache_before_shard):
        yield "the shard is written", world._replace(shard=shard)
    if world.left.rewraps == 1 and rules.owner_wraps and memory.known.current is not None:
        keys = (*world.keys, memory.known.current)
        yield f"{FAULT} it wraps its key anew", world._replace(keys=keys, left=world.spend(rewraps=0))
    if parked is not None and parked.said is None:
        said = Command("again", world.commands[parked.at].id)
        after = parked._replace(said=len(world.commands))
        yield "said again", world._replace(commands=(*world.commands, said), parked=after)


def _decide(rules: Rules, world: World, owner: Owner, size: int) -> tuple[str, World]:
    memory, parked, drawn = owner.memory, world.parked, world.drawn
    events: tuple[Event, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    keys: tuple[KeyRecord, ...] = ()
    for at in range(owner.position, owner.position + size):
        done = decide(rules, world.commands[at], at, memory, parked, drawn)
        memory, parked, drawn = done.memory, done.parked, done.drawn
        id = world.commands[at].id
        outcomes += (Outcome(at, done.status, id, dict(memory.ids).get(id, 0)),)
        events += (done.event,) if done.event else ()
        keys += done.keys
    keys = keys[-1:]  # the last record of a subject counts
    later = keys == (None,) and not rules.one_transaction
    opened = Open(events, outcomes, () if later else keys, parked, owner.position + size, memory, later)
    label = ", ".join(f"{one.id} {one.status}" for one in outcomes)
    return f"decides {label}", world._replace(owner=owner._replace(open=opened), drawn=drawn)


def _of_projection(rules: Rules, world: World, reader: Projection) -> Steps:
    if reader.keys < world.shown[1]:
        known = reader.known
        for record in world.keys[reader.keys : world.shown[1]]:
            known = known if isinstance(record, Gone) else known.with_record(record)
        read = reader._replace(known=known, keys=world.shown[1])
        yield "the projection reads keys", world._replace(projection=read)
    if reader.events < world.shown[0]:
        event = world.events[reader.events]
        project = _project_erased if event.type == ERASED else _project_written
        yield from project(rules, world, reader._replace(events=reader.events + 1), event.data)


def _project_erased(rules: Rules, world: World, after: Projection, data: bytes) -> Steps:
    if rules.projections_hear:
        after = after._replace(rows=frozenset())
    if rules.erased_ends_its_key:
        after = after._replace(known=after.known.with_erased(kid_ended(data)))
    yield "it projects Erased", world._replace(projection=after)


def _project_written(rules: Rules, world: World, after: Projection, data: bytes) -> Steps:
    """The high watermark includes records that are not visible yet. Without the rule only visible records are read."""
    kid, known = kid_named("event", data) or "", after.known
    reading = known.treatment(kid, after.keys, len(world.keys) if rules.high_watermark else after.keys)
    row = "erased"
    if reading == "open":
        row = text_of(open_sealed("event", data, kid))
    elif not rules.named_keys and known.current is not None:
        try:
            row = text_of(open_with(data, known.current.kid))
        except DamagedValueError:
            row = "DAMAGED"
    elif reading == "wait":
        return
    elif all(one.type != ERASED for one in world.events[after.events :]):
        row = "LOST"
    rows = after.rows | ({row} - {"erased"})
    yield f"it projects {row}", world._replace(projection=after._replace(rows=rows))
