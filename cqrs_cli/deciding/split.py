"""What an owner does in a repartitioning, by phase. A child waits for its parent's split, then imports the deferred
commands of its keys. A parent first decides the commands that were sent earlier, then splits.

wait     A child folds the visible records of its keys until its parent has split.
adopt    A child writes the inherited deferred commands to its own partition of the deferred topic, in portions. The
         transaction of the last portion also writes `Begun` to the partition history.
settle   A parent decides, with the old count, the commands that were sent before it saw the repartitioning. Then it
         splits, in one transaction with its claim.
decide   The partition decides with its own count.

After its fence, a parent requests the end of its commands, up to which it decides them with the old count. So commands
that were acknowledged before the topics were extended are below this end.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from cqrs_cli import failpoints
from cqrs_cli.core.context import Decisions
from cqrs_cli.deciding.deferred_commands import deferred_records
from cqrs_cli.deciding.deferred_fold import deferred_entries
from cqrs_cli.deciding.inherit import drop_moved_keys, portions
from cqrs_cli.deciding.session import OwnerSession
from cqrs_cli.deciding.state_cache import StateCache
from cqrs_cli.kafka.readers import watermarks
from cqrs_cli.kafka.writer import BatchTransaction
from cqrs_cli.keyspace.records import Begun, lineage_value
from cqrs_cli.ownership.claim import Claim

#: The limits of one transaction that imports deferred commands, in commands and (roughly) bytes: it must end before its
#: timeout.
IMPORT_BATCH, IMPORT_BATCH_BYTES = 5_000, 8 * 1024 * 1024

#: Seconds between two polls of the partition history.
_POLL_INTERVAL = 0.03


def wait_for_split(
    session: OwnerSession, stopping: Callable[[], bool], catch_up: Callable[[], object]
) -> bool:
    """Wait until the parent has split; return False if stopped before. `catch_up` is called between polls. Raises the
    errors of `Session.check_claim`.
    """
    topics, seen_bounds, checked_at = session.aggregate_topics.topics, (0, 0), time.monotonic()
    while session.assigned_keys.phase == "wait":
        session.measures.enter_step("wait")
        if stopping():
            return False
        bounds = watermarks(session.consumer, topics.lineage, 0)  # up to the last stable offset
        if bounds != seen_bounds:
            session.assigned_keys = session.plan.read_assigned_keys(
                session.partition, bounds, session.log.pool
            )
            seen_bounds = bounds
            continue
        if (now := time.monotonic()) - checked_at >= session.timing.idle_check_interval:
            session.check_claim()
            checked_at = now
        catch_up()
        time.sleep(_POLL_INTERVAL)
    return True


def import_deferred(session: OwnerSession, cache: StateCache, position: int) -> None:
    """Import the inherited deferred commands; the shard is recovered, and contains no decision of this partition. After
    a crash before `begun`, the next owner repeats the import.
    """
    session.measures.enter_step("adopt")
    with cache.reading():
        entries = list(deferred_entries(cache))
    imported = 0
    for portion in portions(entries, IMPORT_BATCH, IMPORT_BATCH_BYTES):
        imported += len(portion)
        with _transaction(session, cache, position, session.current_claim()):
            session.writer.append_deferred(deferred_records({entry.key: entry for entry in portion}))
            if imported == len(entries):
                failpoints.reached("adopt.before_begun")
                session.writer.append_partition_history(lineage_value(Begun(session.partition.number)))
        failpoints.reached("adopt.chunk")
    session.assigned_keys = session.assigned_keys.with_record(Begun(session.partition.number))


def drain_end(session: OwnerSession) -> int | None:
    """Return the offset up to which the old count applies; None if no split is due.

    The offset is the end of the commands, requested after the fence. So commands that were acknowledged before the
    topics were extended are below it. If a later owner requests the end again, it may be greater.
    """
    return session.log_end() if session.assigned_keys.phase == "settle" else None


def split(session: OwnerSession, cache: StateCache, position: int) -> None:
    """Hand over the keys that the next partition count assigns to a child; the claim then contains the next count."""
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
    failpoints.reached("split.before")
    with _transaction(session, cache, position, claim):
        session.writer.append_partition_history(lineage_value(record))
    failpoints.reached("split.after")
    session.own_claim = claim
    session.assigned_keys = assigned_keys.with_record(record)
    cache.learn_keys(session.assigned_keys.key_filter, clears_store=True)
    cache.check_keys(session.own_claim.accepted is not None)
    drop_moved_keys(cache, session.assigned_keys.key_filter)


@contextmanager
def _transaction(
    session: OwnerSession, cache: StateCache, position: int, claim: Claim
) -> Iterator[BatchTransaction]:
    """Commit the writes of the block with the position and a claim."""
    hint = f"{session.aggregate_topics.topics.lineage} and the deferred topic must accept the records: cqrs doctor"
    with session.transaction(
        position, f"{session.log.log_name('commands')} cannot be repartitioned", hint, claim
    ) as transaction:
        transaction.write(Decisions(cache.positions.clock))  # begins the transaction
        yield transaction
