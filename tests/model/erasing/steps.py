"""All possible next steps of a world, each with a label."""

from collections.abc import Iterator

from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encryption import DamagedValueError
from cqrs_cli.keys.topic import WrappedKey
from tests.model.erasing.deciding import decide, recover_memory
from tests.model.erasing.note import (
    decrypt_message,
    decrypt_with_wrong_key,
    encrypt_text,
    kid_ended,
    kid_in,
    kid_named,
    text_of,
)
from tests.model.erasing.world import (
    Backup,
    Cache,
    Command,
    CompactedRecord,
    Copy,
    Event,
    KeyRecord,
    OpenTransaction,
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
    return next((record for record in reversed(keys) if not isinstance(record, CompactedRecord)), None)


def _of_broker(world: World) -> Steps:
    events, keys = len(world.events), len(world.keys)
    if world.visible_ends[0] < events:
        yield "the events show", world._replace(visible_ends=(events, world.visible_ends[1]))
    if world.visible_ends[1] < keys:
        yield "the keys show", world._replace(visible_ends=(world.visible_ends[0], keys))
    offsets = [at for at, record in enumerate(world.keys) if not isinstance(record, CompactedRecord)]
    if not (world.remaining_faults.compactions and offsets and world.visible_ends[1] == keys):
        return
    remaining_faults = world.spend(compactions=world.remaining_faults.compactions - 1)
    if len(offsets) > 1:
        remaining_keys = tuple(
            record if at == offsets[-1] else CompactedRecord() for at, record in enumerate(world.keys)
        )
        yield f"{FAULT} compaction", world._replace(keys=remaining_keys, remaining_faults=remaining_faults)
    elif world.keys[offsets[-1]] is None:
        yield (
            f"{FAULT} the tombstone goes",
            world._replace(keys=(CompactedRecord(),) * keys, remaining_faults=remaining_faults),
        )


def _of_copies(rules: Rules, world: World) -> Steps:
    shard, remaining_faults = world.shard, world.remaining_faults
    if shard is None:
        return
    if remaining_faults.losses and world.owner is None:
        faults_left = world.spend(losses=remaining_faults.losses - 1)
        yield (
            f"{FAULT} the disk is lost",
            world._replace(shard=None, cache=Cache(), remaining_faults=faults_left),
        )
    copy = shard if rules.keys_not_in_checkpoints else shard._replace(cache=world.cache)
    if remaining_faults.checkpoints and copy != world.checkpoint:
        faults_left = world.spend(checkpoints=remaining_faults.checkpoints - 1)
        yield f"{FAULT} a checkpoint", world._replace(checkpoint=copy, remaining_faults=faults_left)


def _of_operators(rules: Rules, world: World) -> Steps:
    remaining_faults, backup = world.remaining_faults, world.backup
    if isinstance(remaining_faults.rewraps, WrappedKey):
        keys = (*world.keys, remaining_faults.rewraps)
        yield (
            f"{FAULT} the tool writes the key",
            world._replace(keys=keys, remaining_faults=world.spend(rewraps=0)),
        )
    elif (
        remaining_faults.rewraps and not rules.owner_wraps and (record := last_record(world.keys)) is not None
    ):
        yield f"{FAULT} a tool reads the key", world._replace(remaining_faults=world.spend(rewraps=record))
    if not remaining_faults.restores:
        return
    if backup is None:
        if world.owner is None and world.events:
            new_backup = Backup(world.commands, world.events, world.outcomes, world.keys, world.parked)
            yield f"{FAULT} a backup", world._replace(backup=new_backup)
    elif (backup.events, backup.keys) != (world.events, world.keys):
        yield f"{FAULT} the backup is restored", _restored(rules, world, backup)


def _restored(rules: Rules, world: World, backup: Backup) -> World:
    was_erased = any(event.type == ERASED for event in world.events)
    repeated_erasure = (Command("erase", "E again"),) if rules.ledger and was_erased else ()
    return World(
        (*world.todo, *repeated_erasure),
        world.spend(restores=world.remaining_faults.restores - 1),
        backup.commands,
        backup.events,
        backup.outcomes,
        backup.keys,
        (len(backup.events), len(backup.keys)),
        backup.parked,
        drawn=world.drawn,
    )


def _of_starts(rules: Rules, world: World) -> Steps:
    if not world.remaining_faults.starts:
        return
    position = max((outcome.offset + 1 for outcome in world.outcomes), default=0)
    ids = {
        outcome.id: outcome.fingerprint
        for outcome in world.outcomes
        if outcome.status in ("accepted", "rejected") and not outcome.id.startswith("E")
    }
    visible_ends = len(world.events), len(world.keys)  # its fence has ended every open transaction
    remaining_faults = world.spend(starts=world.remaining_faults.starts - 1)
    for name, copy in world.copies.items():
        if name == "nothing" and world.shard is not None:
            continue
        memory = recover_memory(rules, world, copy)._replace(ids=tuple(sorted(ids.items())))
        after = world._replace(
            owner=Owner(position, memory), visible_ends=visible_ends, remaining_faults=remaining_faults
        )
        yield f"{FAULT} an owner starts from {name}", after


def _of_owner(scenario: Scenario, rules: Rules, world: World, owner: Owner) -> Steps:
    if world.remaining_faults.crashes:
        remaining_faults = world.spend(crashes=world.remaining_faults.crashes - 1)
        yield f"{FAULT} the owner dies", world._replace(owner=None, remaining_faults=remaining_faults)
    if owner.owes_tombstone:
        keys = (*world.keys, None)
        yield (
            "the tombstone is written",
            world._replace(keys=keys, owner=owner._replace(owes_tombstone=False)),
        )
    elif owner.open is not None:
        yield _commit(world, owner.open)
    else:
        yield from _of_idle_owner(rules, world, owner)
        for size in range(1, min(scenario.batch, len(world.commands) - owner.position) + 1):
            yield _decide(rules, world, owner, size)


def _commit(world: World, transaction: OpenTransaction) -> tuple[str, World]:
    return "commits", world._replace(
        events=(*world.events, *transaction.events),
        outcomes=(*world.outcomes, *transaction.outcomes),
        keys=(*world.keys, *transaction.keys),
        parked=transaction.parked,
        owner=Owner(transaction.position, transaction.memory, owes_tombstone=transaction.later),
    )


def _of_idle_owner(rules: Rules, world: World, owner: Owner) -> Steps:
    memory, parked = owner.memory, world.parked
    state_json = encode_json(memory.state)
    state = (
        encrypt_text("state", text_of(state_json), kid_in(memory.known))
        if rules.sealed_states
        else state_json
    )
    shard, cache = Copy(len(world.events), state), Cache(memory.known, len(world.keys))
    if world.cache != cache:
        yield "the cache is written", world._replace(cache=cache)
    if world.shard != shard and (world.cache == cache or not rules.cache_before_shard):
        yield "the shard is written", world._replace(shard=shard)
    if world.remaining_faults.rewraps == 1 and rules.owner_wraps and memory.known.current is not None:
        keys = (*world.keys, memory.known.current)
        yield (
            f"{FAULT} it wraps its key anew",
            world._replace(keys=keys, remaining_faults=world.spend(rewraps=0)),
        )
    if parked is not None and parked.resubmitted_at is None:
        resubmission = Command("again", world.commands[parked.at].id)
        after = parked._replace(resubmitted_at=len(world.commands))
        yield "said again", world._replace(commands=(*world.commands, resubmission), parked=after)


def _decide(rules: Rules, world: World, owner: Owner, size: int) -> tuple[str, World]:
    memory, parked, drawn = owner.memory, world.parked, world.drawn
    events: tuple[Event, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    keys: tuple[KeyRecord, ...] = ()
    for at in range(owner.position, owner.position + size):
        decision = decide(rules, world.commands[at], at, memory, parked, drawn)
        memory, parked, drawn = decision.memory, decision.parked, decision.drawn
        id = world.commands[at].id
        outcomes += (Outcome(at, decision.status, id, dict(memory.ids).get(id, 0)),)
        events += (decision.event,) if decision.event else ()
        keys += decision.keys
    keys = keys[-1:]  # the last record of a subject counts
    tombstone_later = keys == (None,) and not rules.one_transaction
    transaction = OpenTransaction(
        events,
        outcomes,
        () if tombstone_later else keys,
        parked,
        owner.position + size,
        memory,
        tombstone_later,
    )
    label = ", ".join(f"{outcome.id} {outcome.status}" for outcome in outcomes)
    return f"decides {label}", world._replace(owner=owner._replace(open=transaction), drawn=drawn)


def _of_projection(rules: Rules, world: World, reader: Projection) -> Steps:
    if reader.keys < world.visible_ends[1]:
        known = reader.known
        for record in world.keys[reader.keys : world.visible_ends[1]]:
            known = known if isinstance(record, CompactedRecord) else known.with_record(record)
        after = reader._replace(known=known, keys=world.visible_ends[1])
        yield "the projection reads keys", world._replace(projection=after)
    if reader.events < world.visible_ends[0]:
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
    treatment = known.treatment(kid, after.keys, len(world.keys) if rules.high_watermark else after.keys)
    row = "erased"
    if treatment == "open":
        row = text_of(decrypt_message("event", data, kid))
    elif not rules.named_keys and known.current is not None:
        try:
            row = text_of(decrypt_with_wrong_key(data, known.current.kid))
        except DamagedValueError:
            row = "DAMAGED"
    elif treatment == "wait":
        return
    elif all(event.type != ERASED for event in world.events[after.events :]):
        row = "LOST"
    rows = after.rows | ({row} - {"erased"})
    yield f"it projects {row}", world._replace(projection=after._replace(rows=rows))
