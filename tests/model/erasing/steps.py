"""All possible next steps of a world, each with a label."""

from collections.abc import Iterator

from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encryption import DamagedValueError
from cqrs_cli.keys.topic import WrappedKey
from tests.model.erasing.deciding import decide, recover_memory
from tests.model.erasing.note import (
    active_kid,
    decrypt_message,
    decrypt_with_wrong_key,
    encrypt_text,
    erased_kid,
    message_kid,
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
    if world.unsent:
        sent, *rest = world.unsent
        yield (
            f"a client sends {sent.id}",
            world._replace(commands=(*world.commands, sent), unsent=tuple(rest)),
        )
    yield from _broker_steps(world)
    yield from _copy_steps(rules, world)
    yield from _operator_steps(rules, world)
    if world.owner is None:
        yield from _start_steps(rules, world)
    else:
        yield from _owner_steps(scenario, rules, world, world.owner)
    if scenario.projects:
        yield from _projection_steps(rules, world, world.projection)


def last_record(keys: tuple[KeyRecord, ...]) -> WrappedKey | None:
    """Return the last record of the aggregate's key."""
    return next((record for record in reversed(keys) if not isinstance(record, CompactedRecord)), None)


def _broker_steps(world: World) -> Steps:
    events, keys = len(world.events), len(world.keys)
    if world.visible_ends[0] < events:
        yield "the events become visible", world._replace(visible_ends=(events, world.visible_ends[1]))
    if world.visible_ends[1] < keys:
        yield "the keys become visible", world._replace(visible_ends=(world.visible_ends[0], keys))
    offsets = [offset for offset, record in enumerate(world.keys) if not isinstance(record, CompactedRecord)]
    if not (world.remaining_faults.compactions and offsets and world.visible_ends[1] == keys):
        return
    remaining_faults = world.faults_with(compactions=world.remaining_faults.compactions - 1)
    if len(offsets) > 1:
        remaining_keys = tuple(
            record if offset == offsets[-1] else CompactedRecord() for offset, record in enumerate(world.keys)
        )
        yield f"{FAULT} compaction", world._replace(keys=remaining_keys, remaining_faults=remaining_faults)
    elif world.keys[offsets[-1]] is None:
        yield (
            f"{FAULT} the tombstone is compacted",
            world._replace(keys=(CompactedRecord(),) * keys, remaining_faults=remaining_faults),
        )


def _copy_steps(rules: Rules, world: World) -> Steps:
    shard, remaining_faults = world.shard, world.remaining_faults
    if shard is None:
        return
    if remaining_faults.losses and world.owner is None:
        faults_left = world.faults_with(losses=remaining_faults.losses - 1)
        yield (
            f"{FAULT} the disk is lost",
            world._replace(shard=None, cache=Cache(), remaining_faults=faults_left),
        )
    copy = shard if rules.keys_not_in_checkpoints else shard._replace(cache=world.cache)
    if remaining_faults.checkpoints and copy != world.checkpoint:
        faults_left = world.faults_with(checkpoints=remaining_faults.checkpoints - 1)
        yield f"{FAULT} a checkpoint", world._replace(checkpoint=copy, remaining_faults=faults_left)


def _operator_steps(rules: Rules, world: World) -> Steps:
    remaining_faults, backup = world.remaining_faults, world.backup
    if isinstance(remaining_faults.rewraps, WrappedKey):
        keys = (*world.keys, remaining_faults.rewraps)
        yield (
            f"{FAULT} the tool writes the key",
            world._replace(keys=keys, remaining_faults=world.faults_with(rewraps=0)),
        )
    elif (
        remaining_faults.rewraps
        and not rules.only_owner_rewraps
        and (record := last_record(world.keys)) is not None
    ):
        yield (
            f"{FAULT} a tool reads the key",
            world._replace(remaining_faults=world.faults_with(rewraps=record)),
        )
    if not remaining_faults.restores:
        return
    if backup is None:
        if world.owner is None and world.events:
            new_backup = Backup(world.commands, world.events, world.outcomes, world.keys, world.deferred)
            yield f"{FAULT} a backup", world._replace(backup=new_backup)
    elif (backup.events, backup.keys) != (world.events, world.keys):
        yield f"{FAULT} the backup is restored", _restored(rules, world, backup)


def _restored(rules: Rules, world: World, backup: Backup) -> World:
    was_erased = any(event.type == ERASED for event in world.events)
    repeated_erasure = (Command("erase", "E again"),) if rules.repeats_erasures and was_erased else ()
    return World(
        (*world.unsent, *repeated_erasure),
        world.faults_with(restores=world.remaining_faults.restores - 1),
        backup.commands,
        backup.events,
        backup.outcomes,
        backup.keys,
        (len(backup.events), len(backup.keys)),
        backup.deferred,
        key_count=world.key_count,
    )


def _start_steps(rules: Rules, world: World) -> Steps:
    if not world.remaining_faults.starts:
        return
    position = max((outcome.offset + 1 for outcome in world.outcomes), default=0)
    ids = {
        outcome.id: outcome.fingerprint
        for outcome in world.outcomes
        if outcome.status in ("accepted", "rejected") and not outcome.id.startswith("E")
    }
    visible_ends = len(world.events), len(world.keys)  # its fence has ended every open transaction
    remaining_faults = world.faults_with(starts=world.remaining_faults.starts - 1)
    for name, copy in world.copies.items():
        if name == "nothing" and world.shard is not None:
            continue
        memory = recover_memory(rules, world, copy)._replace(ids=tuple(sorted(ids.items())))
        after = world._replace(
            owner=Owner(position, memory), visible_ends=visible_ends, remaining_faults=remaining_faults
        )
        yield f"{FAULT} an owner starts from {name}", after


def _owner_steps(scenario: Scenario, rules: Rules, world: World, owner: Owner) -> Steps:
    if world.remaining_faults.crashes:
        remaining_faults = world.faults_with(crashes=world.remaining_faults.crashes - 1)
        yield f"{FAULT} the owner dies", world._replace(owner=None, remaining_faults=remaining_faults)
    if owner.owes_tombstone:
        keys = (*world.keys, None)
        yield (
            "the tombstone is written",
            world._replace(keys=keys, owner=owner._replace(owes_tombstone=False)),
        )
    elif owner.transaction is not None:
        yield _commit(world, owner.transaction)
    else:
        yield from _idle_owner_steps(rules, world, owner)
        for size in range(1, min(scenario.batch, len(world.commands) - owner.position) + 1):
            yield _decide(rules, world, owner, size)


def _commit(world: World, transaction: OpenTransaction) -> tuple[str, World]:
    return "commits", world._replace(
        events=(*world.events, *transaction.events),
        outcomes=(*world.outcomes, *transaction.outcomes),
        keys=(*world.keys, *transaction.keys),
        deferred=transaction.deferred,
        owner=Owner(transaction.position, transaction.memory, owes_tombstone=transaction.tombstone_follows),
    )


def _idle_owner_steps(rules: Rules, world: World, owner: Owner) -> Steps:
    memory, deferred = owner.memory, world.deferred
    state_json = encode_json(memory.state)
    state = (
        encrypt_text("state", text_of(state_json), active_kid(memory.subject_keys))
        if rules.encrypts_states
        else state_json
    )
    shard, cache = Copy(len(world.events), state), Cache(memory.subject_keys, len(world.keys))
    if world.cache != cache:
        yield "the cache is written", world._replace(cache=cache)
    if world.shard != shard and (world.cache == cache or not rules.cache_before_shard):
        yield "the shard is written", world._replace(shard=shard)
    if (
        world.remaining_faults.rewraps == 1
        and rules.only_owner_rewraps
        and memory.subject_keys.current is not None
    ):
        keys = (*world.keys, memory.subject_keys.current)
        yield (
            f"{FAULT} the owner re-wraps its key",
            world._replace(keys=keys, remaining_faults=world.faults_with(rewraps=0)),
        )
    if deferred is not None and deferred.resubmitted_at is None:
        resubmission = Command("resubmission", world.commands[deferred.offset].id)
        after = deferred._replace(resubmitted_at=len(world.commands))
        yield (
            "the owner resubmits the deferred write",
            world._replace(commands=(*world.commands, resubmission), deferred=after),
        )


def _decide(rules: Rules, world: World, owner: Owner, size: int) -> tuple[str, World]:
    memory, deferred, key_count = owner.memory, world.deferred, world.key_count
    events: tuple[Event, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    keys: tuple[KeyRecord, ...] = ()
    for offset in range(owner.position, owner.position + size):
        decision = decide(rules, world.commands[offset], offset, memory, deferred, key_count)
        memory, deferred, key_count = decision.memory, decision.deferred, decision.key_count
        id = world.commands[offset].id
        outcomes += (Outcome(offset, decision.status, id, dict(memory.ids).get(id, 0)),)
        events += (decision.event,) if decision.event else ()
        keys += decision.keys
    keys = keys[-1:]  # the last record of a subject counts
    tombstone_later = keys == (None,) and not rules.one_transaction
    transaction = OpenTransaction(
        events,
        outcomes,
        () if tombstone_later else keys,
        deferred,
        owner.position + size,
        memory,
        tombstone_later,
    )
    label = ", ".join(f"{outcome.id} {outcome.status}" for outcome in outcomes)
    return f"decides {label}", world._replace(
        owner=owner._replace(transaction=transaction), key_count=key_count
    )


def _projection_steps(rules: Rules, world: World, reader: Projection) -> Steps:
    if reader.keys < world.visible_ends[1]:
        subject_keys = reader.subject_keys
        for record in world.keys[reader.keys : world.visible_ends[1]]:
            subject_keys = (
                subject_keys if isinstance(record, CompactedRecord) else subject_keys.with_record(record)
            )
        after = reader._replace(subject_keys=subject_keys, keys=world.visible_ends[1])
        yield "the projection reads keys", world._replace(projection=after)
    if reader.events < world.visible_ends[0]:
        event = world.events[reader.events]
        project = _project_erased if event.type == ERASED else _project_written
        yield from project(rules, world, reader._replace(events=reader.events + 1), event.data)


def _project_erased(rules: Rules, world: World, after: Projection, data: bytes) -> Steps:
    if rules.projections_subscribe:
        after = after._replace(rows=frozenset())
    if rules.erased_ends_its_key:
        after = after._replace(subject_keys=after.subject_keys.with_erased(erased_kid(data)))
    yield "the projection handles Erased", world._replace(projection=after)


def _project_written(rules: Rules, world: World, after: Projection, data: bytes) -> Steps:
    """Project a written text. By the rule, the reader knows the high watermark of the keys, which includes records that
    are not visible yet, and waits for them.
    """
    kid, subject_keys = message_kid("event", data) or "", after.subject_keys
    treatment = subject_keys.treatment(
        kid, after.keys, len(world.keys) if rules.high_watermark else after.keys
    )
    row = "erased"
    if treatment == "decrypt":
        row = text_of(decrypt_message("event", data, kid))
    elif not rules.values_name_keys and subject_keys.current is not None:
        try:
            row = text_of(decrypt_with_wrong_key(data, subject_keys.current.kid))
        except DamagedValueError:
            row = "DAMAGED"
    elif treatment == "read more":
        return
    elif all(event.type != ERASED for event in world.events[after.events :]):
        row = "LOST"
    rows = after.rows | ({row} - {"erased"})
    yield f"the projection writes {row}", world._replace(projection=after._replace(rows=rows))
