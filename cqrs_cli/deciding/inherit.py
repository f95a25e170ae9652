"""Folds the state that a child inherits: the records of its own keys, from its parents' logs, up to the splits."""

from collections.abc import Iterator
from dataclasses import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.stored import DedupEntry, restore_dedup_entry
from cqrs_cli.deciding.deferred_fold import deferred_entries, entry_change
from cqrs_cli.deciding.history import check_history
from cqrs_cli.deciding.recover import check_versions_reached, fold_records, parse_outcome
from cqrs_cli.deciding.state_cache import FoldedOfParent, StateCache
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import KeyHome
from cqrs_cli.keyspace.assigned_keys import AssignedKeys
from cqrs_cli.keyspace.records import Split
from cqrs_cli.state.errors import REBUILD_HINT, AheadError
from cqrs_cli.state.evidence import evidence


def inherit_keys(
    log: PartitionLog, aggregate: Aggregate, cache: StateCache, assigned_keys: AssignedKeys, window: int
) -> None:
    """Fold the records that a partition inherits. If the partition has decided a command, nothing is folded: its shard
    already contains these records.

    Folding is idempotent, so the next owner repeats an interrupted fold. The entries of deferred commands are inherited
    until the partition is activated: from then on they are in its own partition of the deferred topic. Raises
    `AheadError` for a shard that is ahead of the logs.
    """
    splits = assigned_keys.inherited_splits
    key_filter = assigned_keys.key_filter
    if not splits or key_filter is None or cache.positions.outcomes > 0:
        return
    cache.fold(cache.positions._replace(clock=max(cache.positions.clock, *(split.clock for split in splits))))
    for split in splits:
        parent = replace(log, partition=split.partition, key_filter=key_filter)
        _check_not_ahead(parent, cache, split)
        _fold_parent(parent, aggregate, cache, split, window)
    if not assigned_keys.is_activated:
        entries = _inherited_entries(parent, key_filter, splits[-1])
        cache.fold(cache.positions, deferred=entries)


def inherit_before_split(
    log: PartitionLog, aggregate: Aggregate, cache: StateCache, assigned_keys: AssignedKeys, window: int
) -> None:
    """Before the split, fold the visible records of the keys that a partition will have, so that only a few records
    remain to be folded after the split.

    The shard stores the offsets up to which it is folded. Deferred commands are inherited only after the split. If a
    parent has already split, its logs are folded up to its split.
    """
    partition, count = assigned_keys.partition, assigned_keys.effective_count
    key_filter = KeyHome(assigned_keys.partitioner, count, partition)
    for number, split in assigned_keys.segments[:-1]:
        parent = replace(log, partition=number, key_filter=key_filter)
        cache.learn_keys(key_filter)
        _fold_parent(parent, aggregate, cache, split or _split_as_of_now(parent), window)


def _split_as_of_now(parent: PartitionLog) -> Split:
    """Return the split that the partition would write now; only the fields that folding uses are set."""
    outcomes = parent.bounds("outcomes")
    # Requested after the bounds of the outcomes, so that the events of these outcomes are below the events' end.
    events = parent.bounds("events")
    last = parent.last_record("outcomes", *outcomes)
    outcomes_end, clock = (0, 0) if last is None else (last.offset + 1, last.timestamp)
    return Split(parent.partition, 0, 0, 0, events[1], outcomes_end, 0, clock)


def _fold_parent(
    parent: PartitionLog, aggregate: Aggregate, cache: StateCache, split: Split, window: int
) -> None:
    """Fold a parent's logs up to its split. Start at the offsets up to which the shard has already folded them.

    A log that is folded completely is not read. That saves time, and commands of the child's keys wait meanwhile.
    """
    inherited = cache.inherited()
    folded_before = folded = inherited.get(split.partition, FoldedOfParent())
    check_history(parent, folded_before.last_event, folded_before.last_outcome)
    if folded_before.events < split.events:
        folded = _fold_events(parent, aggregate, cache, split, folded)
    if folded_before.outcomes < split.outcomes:
        folded = _fold_outcomes(parent, cache, split, window, folded)
    if folded != folded_before:
        cache.store_inherited(inherited | {split.partition: folded})


def _check_not_ahead(parent: PartitionLog, cache: StateCache, split: Split) -> None:
    """Raise `AheadError` for a shard with a decision after the split: Kafka lost a commit after it was visible.

    Raise it also for a shard with outcomes after the split: their timestamps advanced the shard's clock, so the shard
    has dropped ids that must still be remembered.
    """
    folded = cache.inherited().get(split.partition, FoldedOfParent())
    if folded.commands > split.commands:
        raise AheadError(
            f"the shard has decisions of {parent.log_name('commands')} up to {folded.commands}, the log up to"
            f" {split.commands}",
            REBUILD_HINT,
        )
    if folded.outcomes > split.outcomes:
        raise AheadError(
            f"the shard was folded to offset {folded.outcomes} of {parent.log_name('outcomes')}, after the split at"
            f" {split.outcomes}",
            REBUILD_HINT,
        )


def _fold_events(
    parent: PartitionLog, aggregate: Aggregate, cache: StateCache, split: Split, folded: FoldedOfParent
) -> FoldedOfParent:
    start, last_event = max(folded.events, parent.bounds("events")[0]), folded.last_event
    for chunk in parent.read("events", start, max(start, split.events)):
        for records in parent.decode_events([chunk]):
            index = 0
            while index < len(records):
                with cache.reading():
                    states, index = fold_records(parent, aggregate, cache, records, index)
                cache.fold(cache.positions, states)
        last_event = evidence(chunk[-1])
    return folded._replace(events=split.events, last_event=last_event)


def _fold_outcomes(
    parent: PartitionLog, cache: StateCache, split: Split, window: int, folded: FoldedOfParent
) -> FoldedOfParent:
    """Fold the outcomes of a parent.

    In the result, `commands` is the offset after the last command that is remembered.
    """
    decided_end, last_outcome = folded.commands, folded.last_outcome
    window_start = parent.offset_at("outcomes", max(0, split.clock - window))
    start = max(folded.outcomes, split.outcomes if window_start is None else window_start)
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
        decided_end = max(decided_end, *(entry.offset + 1 for entry in remembered.values()), 0)
        last_outcome = evidence(records[-1])
    return folded._replace(outcomes=split.outcomes, commands=decided_end, last_outcome=last_outcome)


def _inherited_entries(parent: PartitionLog, key_filter: KeyHome, split: Split) -> dict[str, Deferral | None]:
    """Return the deferred commands that a child inherits, by the keys of their entries in the child. The entries count
    as not resubmitted, even if the parent has resubmitted the commands.

    The parent has written no record of these keys since the split. So the last record of each key is from before the
    split, and compaction keeps it.
    """
    entries: dict[str, Deferral | None] = {}
    start = parent.bounds("deferred")[0] if split.deferred else 0
    for records in parent.read("deferred", start, split.deferred):
        entries |= dict(entry_change(parent, record) for record in records)
    own_entries = (
        entry
        for entry in entries.values()
        if entry is not None and key_filter.matches(entry.subject.encode())
    )
    inherited = (entry.passed_on_by(split.partition) for entry in own_entries)
    return {entry.key: entry for entry in inherited}


def drop_moved_keys(cache: StateCache, key_filter: KeyHome | None) -> None:
    """Drop the deferred commands and the aggregates of keys that have moved. Otherwise two owners would resubmit the
    commands, and the aggregates would be counted twice. Remembered ids stay until they expire. They do no harm,
    because no command with these ids comes to this partition.
    """
    if key_filter is None:
        return
    cache.drop_moved_aggregates(key_filter.partition_count, key_filter.matches)
    if not cache.has_deferred:
        return
    with cache.reading():
        moved_keys = [
            entry.key for entry in deferred_entries(cache) if not key_filter.matches(entry.subject.encode())
        ]
    if moved_keys:
        cache.fold(cache.positions, deferred=dict.fromkeys(moved_keys))


def portions(entries: list[Deferral], size: int, max_bytes: int) -> Iterator[list[Deferral]]:
    """Yield portions of at most `size` entries and roughly `max_bytes` bytes. There is at least one portion; it may be
    empty.
    """
    portion, remaining_bytes = list[Deferral](), max_bytes
    for entry in entries:
        portion.append(entry)
        remaining_bytes -= len(entry.command)
        if len(portion) == size or remaining_bytes <= 0:
            yield portion
            portion, remaining_bytes = [], max_bytes
    if portion or not entries:
        yield portion
