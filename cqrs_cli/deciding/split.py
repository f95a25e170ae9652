"""The phases of an owner in a repartitioning. A parent passes through `settle` and `decide`, a child through `wait`,
`adopt` and `decide`.

wait     A child folds the visible records of its keys until its parent has split.
adopt    A child writes the inherited deferred commands to its own partition of the deferred topic, in portions. The
         transaction of the last portion also writes `Begun` to the partition history.
settle   A parent decides the remaining commands of the old partition count, up to `drain_end`. Then it splits: one
         transaction commits the `Split` to the partition history, and the claim with the new count.
decide   The partition decides with the new count.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from cqrs_cli.core.context import Decisions
from cqrs_cli.deciding.deferred_commands import deferred_records
from cqrs_cli.deciding.deferred_fold import deferred_entries
from cqrs_cli.deciding.errors import explain_recreated_topic
from cqrs_cli.deciding.inherit import drop_moved_keys, split_into_portions
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.kafka.readers import watermarks
from cqrs_cli.kafka.write_errors import TopicRecreatedError
from cqrs_cli.kafka.writer import BatchTransaction
from cqrs_cli.observer import reached
from cqrs_cli.ownership.claim import Claim

#: The limits of one transaction that imports deferred commands, in commands and (roughly) bytes: it must end before its
#: timeout.
IMPORT_BATCH, IMPORT_BATCH_BYTES = 5_000, 8 * 1024 * 1024

#: Seconds between two polls of the partition history.
_POLL_INTERVAL = 0.03


def wait_for_split(
    session: OwnerSession, is_stopping: Callable[[], bool], catch_up: Callable[[], object]
) -> bool:
    """Wait until the parent has split; return False if `is_stopping()` returns True before. `catch_up` is called
    between two polls of the partition history. Raises the errors of `Session.check_claim`.

    After the wait, the claim is checked: `catch_up` may have folded decisions of a later owner, which has split the
    parent. Recovery would regard these decisions as lost by the log, and quarantine the shard.
    """
    if session.assigned_keys.phase != "wait":
        return True
    topics, last_bounds, checked_at = session.aggregate_topics.topics, (0, 0), time.monotonic()
    while session.assigned_keys.phase == "wait":
        reached("owner.step", step="wait")
        if is_stopping():
            return False
        bounds = watermarks(session.consumer, topics.lineage, 0)  # (log start, last stable offset)
        if bounds != last_bounds:
            session.assigned_keys = session.plan.read_assigned_keys(
                session.partition, bounds, session.log.pool
            )
            last_bounds = bounds
            continue
        if (now := time.monotonic()) - checked_at >= session.timing.idle_check_interval:
            session.check_claim()
            checked_at = now
        catch_up()
        time.sleep(_POLL_INTERVAL)
    session.check_claim()  # another run may have taken over since the last check
    return True


def import_deferred(session: OwnerSession, cache: StateCache, position: int) -> None:
    """Write the inherited deferred commands, which the recovered shard contains, to the child's own partition of the
    deferred topic. After a crash before the `Begun`, the next owner repeats the import.
    """
    reached("owner.step", step="adopt")
    with cache.reading():
        entries = list(deferred_entries(cache))
    imported_count, activation = 0, session.assigned_keys.activation()
    for portion in split_into_portions(entries, IMPORT_BATCH, IMPORT_BATCH_BYTES):
        imported_count += len(portion)
        with _transaction(session, cache, position, session.current_claim()):
            session.writer.append_deferred(deferred_records({entry.key: entry for entry in portion}))
            if imported_count == len(entries):
                reached("import.last")
                session.writer.append_partition_history(activation.encode())
        reached("import.chunk")
    session.assigned_keys = session.assigned_keys.with_record(activation)


def drain_end(session: OwnerSession) -> int | None:
    """Return the offset before which the old partition count applies to commands; None if no split is due.

    This offset is the end of the commands log, requested after the fence. So it is above every command that was
    acknowledged before the topics were extended. If this owner ends before its split, the next owner requests a new
    end, which may be greater.
    """
    return session.bounds("commands")[1] if session.assigned_keys.phase == "settle" else None


def split(session: OwnerSession, cache: StateCache, position: int) -> None:
    """Hand over the keys that the next partition count assigns to a child. One transaction writes the `Split` to the
    partition history, and commits the claim with the next count. `position`: the offset of the next command to decide.

    A split writes no decision whose offset would reveal that a stale leader returned the ends of the logs, and the
    child would miss the last decisions. So the owner proves the ends first. Raises `UnreadRecordsError`.
    """
    cache.flush()
    assigned_keys, positions = session.assigned_keys, cache.positions
    record = assigned_keys.next_split(
        position,
        max(positions.events, session.bounds("events")[1]),
        max(positions.outcomes, session.bounds("outcomes")[1]),
        max(positions.deferred, session.bounds("deferred")[1]),
        positions.clock,
    )
    claim = replace(session.current_claim(), partitions=record.after)
    reached("split.before")
    try:
        session.writer.prove_log_ends()
    except TopicRecreatedError as error:
        raise explain_recreated_topic(error, session.partition, position) from error
    with _transaction(session, cache, position, claim):
        session.writer.append_partition_history(record.encode())
    reached("split.after")
    session.own_claim = claim
    session.assigned_keys = assigned_keys.with_record(record)
    cache.read_keys(session.assigned_keys.key_filter, clears_store=True)
    cache.check_keys(session.own_claim.accepted is not None)
    drop_moved_keys(cache, session.assigned_keys.key_filter)


@contextmanager
def _transaction(
    session: OwnerSession, cache: StateCache, position: int, claim: Claim
) -> Iterator[BatchTransaction]:
    """Commit the writes of the `with` block in one transaction with the position and the claim."""
    hint = f"{session.aggregate_topics.topics.lineage} and the deferred topic must accept the records: cqrs doctor"
    with session.transaction(
        position, f"{session.log.log_name('commands')} cannot be repartitioned", hint, claim
    ) as transaction:
        transaction.write(Decisions(cache.positions.clock))  # writes no record, but begins the transaction
        yield transaction
