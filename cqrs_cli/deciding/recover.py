"""Brings a shard up to date: folds the events and outcomes that the shard does not contain yet.

Folding is idempotent, because it compares aggregate versions. So the positions of the shard may be lower bounds.
"""

from collections.abc import Mapping

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.fold import FoldError, UnreadableEventError, VersionedState, fold_event
from cqrs_cli.core.messages.event import read_event
from cqrs_cli.core.messages.outcome import OutcomeEnvelope, read_outcome
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.stored import DedupEntry, restore_dedup_entry
from cqrs_cli.deciding.deferred_fold import entries_ended_by
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.errors import ContradictionError
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.ownership.claim import AcceptedLoss, first_valid_offset
from cqrs_cli.ownership.complete_events import check_complete
from cqrs_cli.state.errors import REBUILD_HINT, AheadError
from cqrs_cli.state.evidence import evidence
from cqrs_cli.state.store import Store


def fold_events(
    log: PartitionLog,
    aggregate: Aggregate,
    cache: StateCache,
    bounds: tuple[int, int],
    accepted_loss: AcceptedLoss | None = None,
) -> None:
    """Fold the events up to the end of their log. `bounds`: (start, end) of the log.

    Raises `ContradictionError`, which names the record, for an event that contradicts the earlier events or cannot be
    read. Raises it also for deleted events, unless an operator accepted the loss (`accepted_loss`).
    """
    next_offset, (start, end) = cache.positions.folded_events, bounds
    if cache.positions.events > end:
        raise ContradictionError(
            f"{log.log_name('events')} ends at {end}, before the {cache.positions.events} that was already folded",
            "the topic was truncated or replaced: restore it before anything is decided",
        )
    check_complete(log, start, next_offset, accepted_loss)
    for log_records in log.read("events", max(next_offset, start), end):
        for records in log.decode_events([log_records]):
            index = 0
            while index < len(records):
                with cache.reading():
                    states, index = fold_records(log, aggregate, cache, records, index)
                cache.fold(cache.positions.after_event(log_records, records[index - 1].offset), states)
    if cache.positions.events < end:
        cache.fold(cache.positions._replace(events=end))


def fold_records(
    log: PartitionLog, aggregate: Aggregate, cache: StateCache, records: list[Record], index: int
) -> tuple[dict[str, VersionedState], int]:
    """Fold the events in `records` from `index` on. Return the new states by subject, and the index of the next record:
    the function stops early when the cache is full.

    Raises `ContradictionError` as `fold_events` does.
    """
    states: dict[str, VersionedState] = {}
    max_waiting_states, keys = cache.max_waiting_states, cache.keys
    for record in records[index:]:
        index += 1
        try:
            event = read_event(record.value)
            if keys is not None:
                event = keys.decrypt_event(event)
            state = states.get(event.subject) or cache.state(event.subject)
            new_state = fold_event(aggregate, state, event)
        except (FoldError, ValueError) as error:
            raise log.fault("events", record.offset, error) from error
        if new_state is not state:
            states[event.subject] = new_state
            if len(states) >= max_waiting_states:
                break
    return states, index


def fold_outcomes(
    log: PartitionLog,
    cache: StateCache,
    bounds: tuple[int, int],
    last_outcome: Record | None,
    window: int,
    resume_at: int | None = None,
    accepted_loss: AcceptedLoss | None = None,
    topic_id: str = "",
) -> None:
    """Fold the outcomes up to the end of their log: remember the ids of decided commands, and end the entries of
    deferred commands. `bounds`: (start, end) of the log. `topic_id`: id of the commands topic. For an empty shard,
    folding starts one dedup window (`window`, ms) before the `last_outcome`; retention deletes only earlier outcomes.

    Call this function after the events are folded. If an aggregate does not reach the version in an outcome, events
    were lost: raise `ContradictionError` with `resume_at` as the offset to continue from. Outcomes from before an
    accepted loss are not checked.
    """
    next_offset, (start, end) = cache.positions.folded_outcomes, bounds
    if cache.positions.outcomes > end:
        raise ContradictionError(
            f"{log.log_name('outcomes')} ends at {end}, before the {cache.positions.outcomes} that was already folded",
            "the topic was truncated or replaced: restore it before anything is decided",
        )
    if next_offset == 0 and last_outcome is not None:
        next_offset = log.offset_at("outcomes", max(0, last_outcome.timestamp - window)) or 0
    first_valid = first_valid_offset(accepted_loss, "outcomes")
    for records in log.read("outcomes", max(next_offset, start), end):
        positions = cache.positions
        clock = max(positions.clock, *(record.timestamp for record in records))
        dedup_entries: dict[tuple[str, str], DedupEntry] = {}
        decided_end = positions.commands
        latest_outcomes: dict[str, OutcomeEnvelope] = {}
        parsed_outcomes = [(record, parse_outcome(log, record)) for record in records]
        for record, outcome in parsed_outcomes:
            decided_end = outcome.data.offset + 1
            restore_dedup_entry(dedup_entries, outcome, record.timestamp)
            if record.offset < first_valid:
                continue
            if outcome.subject is not None and outcome.data.status != "failed":
                latest_outcomes[outcome.subject] = outcome
        check_versions_reached(log, cache, latest_outcomes, decided_end if resume_at is None else resume_at)
        with cache.reading():
            ended_entries = entries_ended_by(cache, topic_id, parsed_outcomes)
        cache.fold(
            positions._replace(
                commands=decided_end,
                outcomes=records[-1].offset + 1,
                clock=clock,
                last_outcome=evidence(records[-1]),
            ),
            None,
            dedup_entries,
            ended_entries,
        )
    if cache.positions.outcomes < end:
        cache.fold(cache.positions._replace(outcomes=end))


def check_versions_reached(
    log: PartitionLog, cache: StateCache, latest_outcomes: Mapping[str, OutcomeEnvelope], resume_at: int
) -> None:
    """Raise `ContradictionError` if events were lost: commands would be decided with an outdated state.

    `latest_outcomes`: subject → its last outcome. `resume_at`: the offset of the next command to decide, which the
    remedy names.
    """
    with cache.reading():
        for subject, outcome in latest_outcomes.items():
            state, decision = cache.state(subject), outcome.data
            if has_lost_events(state, outcome):
                version = state.version if state else 0
                raise ContradictionError(
                    f"{log.log_name('events')} leaves {subject!r} at version {version}, "
                    f"but command {decision.offset} left it at version {decision.version}: events were lost",
                    "restore the topic; to continue without these events: "
                    f"cqrs run --accept-loss {format_position(log.partition, resume_at, log.topics.aggregate)}",
                )


def is_permanent(error: ContradictionError) -> bool:
    """Return True if retrying cannot help: the code cannot read an event, or the keyring lacks a KEK. A broker that has
    just rejoined its cluster may hide records, but never alters a record.
    """
    return error.is_permanent or isinstance(error.__cause__, UnreadableEventError)


def has_lost_events(state: VersionedState | None, outcome: OutcomeEnvelope) -> bool:
    """Return True if events were lost: the version of `state`, which contains all remaining events, is below the
    version in the outcome.
    """
    return (state.version if state else 0) < outcome.data.version


def parse_outcome(log: PartitionLog, record: Record) -> OutcomeEnvelope:
    """Return the outcome in a record; raises `ContradictionError` if it is not an outcome."""
    try:
        return read_outcome(record.value)
    except ValueError as error:
        raise log.fault("outcomes", record.offset, f"not an outcome: {error}") from error


def check_not_ahead(store: Store, log: PartitionLog, position: int) -> None:
    """Raise `AheadError` for a shard that is ahead of the log, with decisions at or after `position`: Kafka lost a
    commit that it had confirmed. The shard is then quarantined and rebuilt from the log.
    """
    if (decided_end := store.positions().commands) > position:
        raise AheadError(
            f"the shard of {log.log_name('commands')} has decisions up to {decided_end}, the log up to {position}",
            REBUILD_HINT,
        )
