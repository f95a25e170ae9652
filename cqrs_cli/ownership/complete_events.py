"""Checks that no event of a log was deleted. Every reader that folds or copies events calls this check, because a
reader cannot see that events before its first event were deleted.
"""

from collections.abc import Iterable, Mapping

from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.kafka import readers
from cqrs_cli.kafka.clients import Isolation
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.kafka.partition_log import PartitionLog
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.ownership.claim import AcceptedLoss, parse_claim


def check_complete(
    log: PartitionLog, start: int, position: int = 0, accepted_loss: AcceptedLoss | None = None
) -> None:
    """Raise `ContradictionError` if events between `position` and the log's `start` were deleted, unless an operator
    accepted that loss (`accepted_loss`).
    """
    if position < start and (accepted_loss is None or start > accepted_loss.events[0]):
        raise ContradictionError(
            f"{log.log_name('events')} begins at {start}: the events from offset {position} on were deleted",
            "restore the topic, and set its retention.ms and retention.bytes to -1",
        )


def check_starts(
    connection: Cluster, topics: Topics, starts: Mapping[int, int], positions: Mapping[int, int] | None = None
) -> None:
    """Call `check_complete` for several partitions. `starts`: log start by partition. `positions`: the offset of the
    first event to read by partition, by default 0.

    The claim with the accepted loss is read only if a check would fail without it.
    """
    for partition, start in starts.items():
        position = (positions or {}).get(partition, 0)
        if position < start:
            log = PartitionLog(connection, topics, partition)
            check_complete(log, start, position, _read_accepted_loss(log))


def complete_bounds(
    connection: Cluster, topics: Topics, partitions: Iterable[int], isolation: Isolation = "read_committed"
) -> dict[int, tuple[int, int]]:
    """Return (log start, end) of events by partition, as `readers.bounds` does.

    Raises `ContradictionError` if events were deleted, unless an operator accepted that loss.
    """
    bounds = readers.bounds(connection, topics.events, partitions, isolation)
    check_starts(connection, topics, {partition: start for partition, (start, _) in bounds.items()})
    return bounds


def _read_accepted_loss(log: PartitionLog) -> AcceptedLoss | None:
    """Return the accepted loss in the committed claim; None without a claim, or without the right to read it."""
    try:
        claim = parse_claim(log.committed_position().metadata)
    except CqrsError:
        return None
    return None if claim is None else claim.accepted
