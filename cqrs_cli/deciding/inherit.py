"""Folds the state that a child inherits: its own keys, from its parents' logs, up to the splits."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from msgspec.structs import replace as changed

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.messages.repartitioning import Split
from cqrs_cli.core.stored import DedupEntry, restore_dedup_entry
from cqrs_cli.deciding.assigned_keys import AssignedKeys
from cqrs_cli.deciding.deferred_fold import deferred_entries, entry_change
from cqrs_cli.deciding.history import check_history
from cqrs_cli.deciding.recover import check_versions_reached, fold_records, parse_outcome
from cqrs_cli.deciding.state_cache import FoldedOfParent, StateCache
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import KeyHome
from cqrs_cli.state.errors import REBUILD, AheadError
from cqrs_cli.state.evidence import evidence


def inherit_keys(
    log: PartitionLog, aggregate: Aggregate, cache: StateCache, holding: AssignedKeys, window: int
) -> None:
    """Fold the records that a partition inherits, unless it has decided a command since: then its shard already has
    them.

    Folding is idempotent, so an owner that was interrupted repeats it. The entries of deferred commands are inherited
    until the partition has begun: from then on they are in its own topic. Raises `AheadError` for a shard that is ahead
    of the logs.
    """
    splits = holding.lineage.inherited_splits(holding.number)
    keeps = holding.keeps
    if not splits or keeps is None or cache.positions.outcomes > 0:
        return
    cache.fold(cache.positions._replace(clock=max(cache.positions.clock, *(one.clock for one in splits))))
    for split in splits:
        parent = replace(log, partition=split.partition, key_filter=keeps)
        _check_not_ahead(parent, cache, split)
        _fold_parent(parent, aggregate, cache, split, window)
    if not holding.lineage.is_activated(holding.number):
        entries = _entries(parent, keeps, splits[-1])
        cache.fold(cache.positions, deferred=entries)


def inherit_before_split(
    log: PartitionLog, aggregate: Aggregate, cache: StateCache, holding: AssignedKeys, window: int
) -> None:
    """Before the split: fold the visible records of the keys that a partition will have, so that few remain after the
    split.

    The shard stores the offsets up to which it is folded. Deferred commands are inherited only after the split. If a
    parent has already split, its logs are folded up to its split.
    """
    keeps, lineage = KeyHome(holding.partitioner, holding.judging, holding.number), holding.lineage
    for number, child in pairwise((*lineage.parent_chain(holding.number), holding.number)):
        parent = replace(log, partition=number, key_filter=keeps)
        split = lineage.split_creating(child) or _visible(parent)
        cache.learn_keys(keeps)
        _fold_parent(parent, aggregate, cache, split, window)


def _visible(parent: PartitionLog) -> Split:
    """Return the split of a partition as it would be now."""
    outcomes = parent.bounds("outcomes")
    # Requested after the outcomes, so that the events of these outcomes are below the end.
    events = parent.bounds("events")
    last = parent.last_record("outcomes", *outcomes)
    end, clock = (0, 0) if last is None else (last.offset + 1, last.timestamp)
    return Split(parent.partition, 0, 0, 0, events[1], end, 0, clock)


def _fold_parent(
    parent: PartitionLog, aggregate: Aggregate, cache: StateCache, split: Split, window: int
) -> None:
    """Fold a parent's logs up to its split, starting where the shard ends. A log that the shard has completely is not
    requested from the broker, because commands of the child's keys wait for this fold.
    """
    inherited = cache.inherited()
    before = now = inherited.get(split.partition, FoldedOfParent())
    check_history(parent, before.last_event, before.last_outcome)
    if before.events < split.events:
        now = _fold_events(parent, aggregate, cache, split, now)
    if before.outcomes < split.outcomes:
        now = _fold_outcomes(parent, cache, split, window, now)
    if now != before:
        cache.store_inherited(inherited | {split.partition: now})


def _check_not_ahead(parent: PartitionLog, cache: StateCache, split: Split) -> None:
    """Refuse a shard that has a decision beyond the split: Kafka lost the commit after it was visible. Refuse also a
    shard that has seen outcomes beyond the split: their later times advanced its clock, so it has left out ids that
    must still be remembered.
    """
    held = cache.inherited().get(split.partition, FoldedOfParent())
    if held.commands > split.commands:
        raise AheadError(
            f"the shard knows decisions of {parent.log_name('commands')} up to {held.commands}, the log up to"
            f" {split.commands}",
            REBUILD,
        )
    if held.outcomes > split.outcomes:
        raise AheadError(
            f"the shard was made behind the split of {parent.log_name('outcomes')}: up to {held.outcomes}, not"
            f" {split.outcomes}",
            REBUILD,
        )


def _fold_events(
    parent: PartitionLog, aggregate: Aggregate, cache: StateCache, split: Split, before: FoldedOfParent
) -> FoldedOfParent:
    start, last = max(before.events, parent.bounds("events")[0]), before.last_event
    for stored in parent.read("events", start, max(start, split.events)):
        for records in parent.with_data("events", [stored]):
            done = 0
            while done < len(records):
                with cache.reading():
                    states, done = fold_records(parent, aggregate, cache, records, done)
                cache.fold(cache.positions, states)
        last = evidence(stored[-1])
    return before._replace(events=split.events, last_event=last)


def _fold_outcomes(
    parent: PartitionLog, cache: StateCache, split: Split, window: int, before: FoldedOfParent
) -> FoldedOfParent:
    """Fold the outcomes. `commands` of the result is the offset after the last command that is remembered."""
    decided, last = before.commands, before.last_outcome
    found = parent.offset_at("outcomes", max(0, split.clock - window))
    start = max(before.outcomes, split.outcomes if found is None else found)
    for records in parent.read("outcomes", start, max(start, split.outcomes)):
        clock = max(cache.positions.clock, *(record.timestamp for record in records))
        remembered: dict[tuple[str, str], DedupEntry] = {}
        latest: dict[str, OutcomeEnvelope] = {}
        for record in records:
            outcome = parse_outcome(parent, record)
            restore_dedup_entry(remembered, outcome, record.timestamp, split.partition)
            if outcome.subject is not None and outcome.data.status != "failed":
                latest[outcome.subject] = outcome
        check_versions_reached(parent, cache, latest, split.commands)
        cache.fold(cache.positions._replace(clock=clock), None, remembered)
        decided = max(decided, *(one.offset + 1 for one in remembered.values()), 0)
        last = evidence(records[-1])
    return before._replace(outcomes=split.outcomes, commands=decided, last_outcome=last)


def _entries(parent: PartitionLog, keeps: KeyHome, split: Split) -> dict[str, Deferral | None]:
    """Return the deferred commands that a child inherits, by their keys in the child. Each counts as not resubmitted,
    even if the parent has resubmitted it.

    The parent has written no record of these keys since the split, so compaction keeps the last record of each key.
    """
    found: dict[str, Deferral | None] = {}
    start = parent.bounds("deferred")[0] if split.deferred else 0
    for records in parent.read("deferred", start, split.deferred):
        found |= dict(entry_change(parent, record) for record in records)
    waiting = (one for one in found.values() if one is not None and keeps.matches(one.subject.encode()))
    inherited = (inherited_entry(one, split.partition) for one in waiting)
    return {one.key: one for one in inherited}


def inherited_entry(entry: Deferral, parent: int) -> Deferral:
    """Return a parent's entry in the form that it has in the child."""
    partition = parent if entry.partition is None else entry.partition
    return changed(entry, partition=partition, resubmitted_offset=None, resubmitted_topic="")


def drop_moved_keys(cache: StateCache, keeps: KeyHome | None) -> None:
    """Drop the deferred commands and the aggregates of keys that have moved. Otherwise two owners would resubmit the
    commands, and the aggregates would be counted twice. Remembered ids stay until they expire: no command asks for
    them.
    """
    if keeps is None:
        return
    cache.drop_moved_aggregates(keeps.partition_count, keeps.matches)
    if not cache.has_deferred:
        return
    with cache.reading():
        moved = [one.key for one in deferred_entries(cache) if not keeps.matches(one.subject.encode())]
    if moved:
        cache.fold(cache.positions, deferred=dict.fromkeys(moved))


def portions(entries: list[Deferral], size: int, most_bytes: int) -> Iterator[list[Deferral]]:
    """Yield portions of at most `size` entries and roughly `most_bytes`; at least one portion, which may be empty."""
    portion, left = list[Deferral](), most_bytes
    for one in entries:
        portion.append(one)
        left -= len(one.command)
        if len(portion) == size or left <= 0:
            yield portion
            portion, left = [], most_bytes
    if portion or not entries:
        yield portion
