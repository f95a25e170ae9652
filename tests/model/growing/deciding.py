"""An owner's memory, restored from the logs, and its decision on one command."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, TypeAlias

from cqrs_cli.keyspace.lineage import PartitionLineage
from tests.model.growing.world import Command, Entry, Memory, Outcome, Partition, RecordPosition, Rules, World

States: TypeAlias = dict[int, int]
Ids: TypeAlias = dict[tuple[int, str], RecordPosition]
Entries: TypeAlias = dict[str, Entry]


@cache
def count_of(lineage: PartitionLineage, partition: int) -> int | None:
    """Return the partition count by which a partition's owner assigns keys."""
    return lineage.active_count(partition)


def recover_memory(rules: Rules, world: World, lineage: PartitionLineage, number: int) -> Memory:
    """Return the memory restored from the logs: imported data, then the partition's own, of its own keys only."""
    states: States = {}
    ids: Ids = {}
    entries: Entries = {}
    for split in lineage.inherited_splits(number):
        parent = world.partitions[split.partition]
        if not rules.inherits_ids:
            ids = {}
        entries = {}  # a parent is activated before its split, so its imports are in its own topic
        partition = parent._replace(
            events=parent.events[: split.events],
            outcomes=parent.outcomes[: split.outcomes],
            deferred=parent.deferred[: split.deferred],
        )
        _fold(split.partition, partition, states, ids, entries)
    if not rules.inherits_ids:
        ids = {}
    if rules.imports_entries and number in lineage.activated:
        entries = {}
    _fold(number, world.partitions[number], states, ids, entries)
    count = count_of(lineage, number)
    return without_moved_keys(
        Memory(sorted_items(states), sorted_items(ids), sorted_items(entries)), number, count
    )


def without_moved_keys(memory: Memory, number: int, count: int | None) -> Memory:
    """Return the memory without the keys that have moved."""
    if count is None:
        return memory
    return Memory(
        tuple(item for item in memory.states if item[0] % count == number),
        tuple(item for item in memory.ids if item[0][0] % count == number),
        tuple(item for item in memory.entries if item[1].key % count == number),
    )


def _fold(number: int, partition: Partition, states: States, ids: Ids, entries: Entries) -> None:
    for event in partition.events:
        states[event.key] = max(event.version, states.get(event.key, 0))
    for record in partition.deferred:
        if record is not None:
            put(entries, *record)
    for outcome in partition.outcomes:
        if not outcome.visible:
            continue
        if outcome.id and outcome.status in ("accepted", "rejected"):
            ids[outcome.key, outcome.id] = (number, outcome.offset)
        if outcome.entry and outcome.status != "deferred":
            entries.pop(outcome.entry, None)


def put(entries: Entries, key: str, entry: Entry | None) -> None:
    """Set or remove an entry."""
    if entry is None:
        entries.pop(key, None)
    else:
        entries[key] = entry


def sorted_items(mapping: Mapping[Any, Any]) -> Any:
    """Return the items of a mapping as a sorted tuple, which is comparable and hashable."""
    return tuple(sorted(mapping.items()))


class Decision(NamedTuple):
    """A decision. `version` is the event's version, 0 without an event. `entry` is the key of the ended entry."""

    status: str
    version: int = 0
    entry: str = ""
    entry_changes: tuple[tuple[str, Entry | None], ...] = ()  # None removes the entry
    forward_to: int | None = None  # the partition to which the command is forwarded


def decide(
    rules: Rules,
    lineage: PartitionLineage,
    number: int,
    count: int,
    offset: int,
    command: Command,
    memory: Memory,
    fails: bool,
) -> Decision:
    """Decide the command at an offset of a partition whose owner assigns keys by `count`."""
    if rules.checks_partition and command.key % count != number:
        return _forward_or_refuse(rules, lineage, number, count, command.key)
    states, ids, entries = dict(memory.states), dict(memory.ids), dict(memory.entries)
    keys_by_id = {entry.id: key for key, entry in entries.items()}
    next_version = states.get(command.key, 0) + 1
    if command.kind == "cancel":
        return _cancel(entries, keys_by_id)
    if command.kind == "resubmission":
        entry_key = next(
            (key for key, entry in entries.items() if entry.resubmitted_at == (number, offset)), None
        )
        if entry_key is not None and entries[entry_key].state == "resubmitted, cancelled":
            return Decision("rejected", 0, entry_key, ((entry_key, None),))
        if entry_key is not None:
            return Decision(
                "failed" if fails else "accepted",
                0 if fails else next_version,
                entry_key,
                ((entry_key, None),),
            )
    if command.id in keys_by_id or (command.key, command.id) in ids:
        return Decision("duplicate")
    if command.kind == "resubmission":
        return Decision("NOT_RELEASED")
    if command.kind == "later":
        key = rules.entry_key(number, offset)
        return Decision("deferred", 0, key, ((key, Entry(command.id, command.key)),))
    return Decision("accepted", next_version)


def _forward_or_refuse(
    rules: Rules, lineage: PartitionLineage, number: int, count: int, key: int
) -> Decision:
    target = lineage.forward_target(number, lambda partition_count: key % partition_count)
    if target is None or not rules.forwards:
        return Decision("WRONG_PARTITION")
    return Decision("moved", forward_to=target if rules.forwards_hop_by_hop else key % count)


def _cancel(entries: Entries, keys_by_id: dict[str, str]) -> Decision:
    if "n" not in keys_by_id:
        return Decision("rejected")
    key = keys_by_id["n"]
    entry = entries[key]
    state = entry.state if entry.state.endswith("cancelled") else f"{entry.state}, cancelled"
    return Decision("unchanged", entry_changes=((key, entry._replace(state=state)),))


def outcome_of(offset: int, command: Command, decision: Decision) -> Outcome:
    """Return the outcome of a command. The outcome of a cancel has no id, because no command repeats it."""
    return Outcome(
        offset, decision.status, "" if command.kind == "cancel" else command.id, command.key, decision.entry
    )
