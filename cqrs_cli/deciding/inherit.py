"""Folds inherited records into a child's shard: the records of its keys in its parents' logs, up to the splits.

After two repartitionings a child may have several parents: the logs of all its ancestors contain records of its keys.
"""

from collections.abc import Iterator
from dataclasses import replace

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.deferral.entry import Deferral
from cqrs_cli.core.messages.outcome import OutcomeEnvelope
from cqrs_cli.core.stored import DedupEntry, restore_dedup_entry
from cqrs_cli.deciding.deferred_fold import deferred_entries, entry_change
from cqrs_cli.deciding.history_check import check_history
from cqrs_cli.deciding.recover import check_versions_reached, fold_records, parse_outcome
from cqrs_cli.deciding.state_cache import FoldedOfParent, StateCache
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.partitioner import KeyFilter
from cqrs_cli.keyspace.assigned_keys import AssignedKeys
from cqrs_cli.keyspace.records import Split
from cqrs_cli.state.errors import REBUILD_HINT, AheadError
from cqrs_cli.state.evidence import evidence


def inherit_keys(
    log: PartitionLog, aggregate: Aggregate, cache: StateCache, assigned_keys: AssignedKeys, window: int
) -> None:
    """Fold the records that a partition inherits after its parent's split. `window`: the dedup window in ms. If the
    partition has decided a command, this function does nothing, because the shard already contains the records.

    Folding is idempotent, so the next owner repeats an interrupted fold. Deferred commands are inherited only until the
    partition is activated: from then on, their entries are in its own partition of the deferred topic. Raises
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
    """Before the parent's split, fold the visible records of the keys that the partition will have. Then few records
    remain for `inherit_keys` after the split.

    The shard stores the offsets up to which each parent is folded. Deferred commands are inherited only after the
    split. The logs of an earlier ancestor, which has already split, are folded up to its split.
    """
    partition, count = assigned_keys.partition, assigned_keys.effective_count
    key_filter = KeyFilter(assigned_keys.partitioner, count, partition)
    for number, split in assigned_keys.segments[:-1]:
        parent = replace(log, partition=number, key_filter=key_filter)
        end = split or _split_as_of_now(parent)
        # The keys are read after the end of the events is known. Otherwise a key of the last events may be missing.
        cache.read_keys(key_filter)
        _fold_parent(parent, aggregate, cache, end, window)


def _split_as_of_now(parent: PartitionLog) -> Split:
    """Return a preliminary split at the ends of the parent's logs; only the fields for folding are set."""
    outcomes = parent.bounds("outcomes")
    # The end of the events is requested after the end of the outcomes, so it includes the events of these outcomes.
    events = parent.bounds("events")
    last_outcome = parent.last_record("outcomes", *outcomes)
    outcomes_end, clock = (
        (0, 0) if last_outcome is None else (last_outcome.offset + 1, last_outcome.timestamp)
    )
    return Split(parent.partition, 0, 0, 0, events[1], outcomes_end, 0, clock)


def _fold_parent(
    parent: PartitionLog, aggregate: Aggregate, cache: StateCache, split: Split, window: int
) -> None:
    """Fold a parent's events and outcomes up to its split. Begin at the offsets where an earlier fold has ended.

    A log that is folded completely is not read again, because the commands of the child wait for this function.
    """
    inherited_offsets = cache.inherited_offsets()
    folded_before = folded = inherited_offsets.get(split.partition, FoldedOfParent())
    check_history(parent, folded_before.last_event, folded_before.last_outcome)
    if folded_before.events < split.events:
        folded = _fold_events(parent, aggregate, cache, split, folded)
    if folded_before.outcomes < split.outcomes:
        folded = _fold_outcomes(parent, cache, split, window, folded)
    if folded != folded_before:
        cache.store_inherited_offsets(inherited_offsets | {split.partition: folded})


def _check_not_ahead(parent: PartitionLog, cache: StateCache, split: Split) -> None:
    """Raise `AheadError` for a shard that contains decisions or outcomes after the split: Kafka has lost a commit that
    was visible.

    The outcomes after the split have advanced the shard's clock, so the shard may have dropped ids that it must still
    remember.
    """
    folded = cache.inherited_offsets().get(split.partition, FoldedOfParent())
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
    """Fold the events of a parent up to its split. Return `folded` with the new offset and the last folded event."""
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
    """Fold the outcomes of a parent from one dedup window (`window`, ms) before the split, up to the split.

    Return `folded` with the new offsets; `commands` is the offset after the last command whose outcome was folded.
    """
    decided_end, last_outcome = folded.commands, folded.last_outcome
    window_start = parent.offset_at("outcomes", max(0, split.clock - window))  # None: all outcomes are older
    start = max(folded.outcomes, split.outcomes if window_start is None else window_start)
    for records in parent.read("outcomes", start, max(start, split.outcomes)):
        clock = max(cache.positions.clock, *(record.timestamp for record in records))
        dedup_entries: dict[tuple[str, str], DedupEntry] = {}
        latest_outcomes: dict[str, OutcomeEnvelope] = {}
        for record in records:
            outcome = parse_outcome(parent, record)
            restore_dedup_entry(dedup_entries, outcome, record.timestamp, split.partition)
            if outcome.subject is not None and outcome.data.status != "failed":
                latest_outcomes[outcome.subject] = outcome
        check_versions_reached(parent, cache, latest_outcomes, split.commands)
        cache.fold(cache.positions._replace(clock=clock), None, dedup_entries)
        decided_end = max(decided_end, *(entry.offset + 1 for entry in dedup_entries.values()), 0)
        last_outcome = evidence(records[-1])
    return folded._replace(outcomes=split.outcomes, commands=decided_end, last_outcome=last_outcome)


def _inherited_entries(
    parent: PartitionLog, key_filter: KeyFilter, split: Split
) -> dict[str, Deferral | None]:
    """Return the deferred commands that a child inherits, as entry key → entry. An inherited entry counts as not
    resubmitted, even if the parent has resubmitted its command.

    Compaction keeps the last record of each entry. This record is below `split.deferred`, because the parent writes no
    entry for a key that has moved to a child.
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
    inherited_entries = (entry.passed_on_by(split.partition) for entry in own_entries)
    return {entry.key: entry for entry in inherited_entries}


def drop_moved_keys(cache: StateCache, key_filter: KeyFilter | None) -> None:
    """Drop the deferred commands and the aggregates whose keys have moved to another partition (`key_filter` does not
    match). Otherwise two owners would resubmit the commands, and the aggregates would be counted twice. The remembered
    ids of these keys stay until they expire; no command with such an id comes to this partition.
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


def split_into_portions(entries: list[Deferral], size: int, max_bytes: int) -> Iterator[list[Deferral]]:
    """Split a list of entries into portions of at most `size` entries and roughly `max_bytes` bytes of commands. For an
    empty list, yield one empty portion.
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
