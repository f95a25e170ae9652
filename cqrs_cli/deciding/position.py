"""The position of an owner, derived from the log alone: a pure function, so that every case has a test."""

from typing import NamedTuple

from cqrs_cli.errors import ContradictionError, CqrsError, UsageError
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.keyspace.count_errors import partition_count_error
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, UNKNOWN_TOPICS, Accepted, Claim


class LogState(NamedTuple):
    """The state of one partition's topics. All offsets are offsets of the commands topic.

    Outcomes and events before an accepted loss do not count.
    """

    aggregate: str
    topic: str
    partition: int
    topic_id: str
    other_ids: tuple[str, str]  # topic ids of the events and the outcomes
    partitions: int  # the partition's effective count
    start: int  # of the commands
    end: int  # high watermark of the commands
    last_outcome: int | None  # the command offset in the last visible outcome
    last_outcome_matches: bool  # True if that command is still at its offset
    outcomes_start: int  # the start of the outcomes: above 0 once retention has deleted outcomes
    has_events: bool
    last_event: int | None  # the command offset in the last visible event; None also if it is unreadable
    last_event_matches: bool  # as for the outcome; only checked if the outcome does not match
    is_new: bool  # True if all commands are later than the last outcome
    committed: int | None  # the group's offset; None if there is none, or it expired
    claim: Claim | None  # in the metadata of that offset
    deferred_id: str = UNKNOWN_TOPIC  # topic id of the deferred commands
    was_repartitioned: bool = False  # then the partitions' counts may differ


def position(log: LogState, accept_loss: int | None = None) -> int:
    """Return the offset to decide next. The caller has to check that `gap(log, next_offset)` contains only control
    records.

    Raises `ConfigurationError` if the partition count changed, `ContradictionError` if continuing would lose or repeat
    a decision. `accept_loss` is the offset from which an operator wants to continue; `UsageError` if the log does not
    have it. An offset that would repeat decisions is ignored: the operator named it for an earlier loss. An accepted
    loss in the claim is valid until a command is decided after it.
    """
    if log.claim is not None:
        _check_partition_count(log, log.claim.partitions)
    if (
        accept_loss is not None
        and not _was_loss_applied(log, accept_loss)
        and accept_loss >= _known_decided_end(log)
    ):
        check_offset_in_log(log.topic, log.partition, accept_loss, log.start, log.end)
        return accept_loss
    if _has_claim_for_other_topic(log):
        raise inconsistency_error(log, "the topic was deleted and created again", log.start)
    loss = _accepted_loss(log)
    next_offset = 0 if log.last_outcome is None else log.last_outcome + 1
    if (recreated := _recreated_topic(log)) is not None:
        problem = f"the topic of its {recreated} was deleted and created again"
        raise inconsistency_error(log, problem, max(next_offset, log.committed or 0))
    if log.last_outcome is None and loss is not None and log.outcomes_start <= loss.outcomes:
        next_offset = loss.offset
    elif log.last_outcome is None and log.outcomes_start > 0 and _is_committed_for_topic(log):
        next_offset = log.committed or 0  # retention has deleted all outcomes
    elif log.last_outcome is None and log.has_events:
        raise inconsistency_error(
            log, "there are events but no outcome, so it is unknown which commands were decided", log.start
        )
    if log.last_event is not None and log.last_event >= next_offset:
        problem = f"command {log.last_event} has events but no outcome"
        raise inconsistency_error(log, problem, log.last_event + 1)
    if log.committed is not None and log.committed < next_offset:
        raise inconsistency_error(
            log, f"offset {log.committed} is committed but {next_offset - 1} is decided", next_offset
        )
    if next_offset > log.end:
        problem = f"offset {next_offset - 1} is decided but the log ends at {log.end}"
        raise inconsistency_error(log, problem, log.start if log.is_new else log.end)
    if next_offset < log.start and not _no_command_lost(log, next_offset):
        problem = f"commands {next_offset} to {log.start - 1} were deleted before they were decided"
        raise inconsistency_error(log, f"{problem}, unless they belonged to aborted transactions", log.start)
    if log.committed is not None and log.committed > log.end:
        raise inconsistency_error(
            log, f"offset {log.committed} is committed but the log ends at {log.end}", next_offset
        )
    return max(next_offset, log.start)


def _check_partition_count(log: LogState, claimed_count: int) -> None:
    """Check the count in the claim. The split has committed it, so a history with a lower count is incomplete."""
    if not log.was_repartitioned and claimed_count != log.partitions:
        raise partition_count_error(log.aggregate, log.topic, claimed_count, log.partitions)
    if claimed_count > log.partitions:
        raise ContradictionError(
            f"{log.topic} partition {log.partition} has split to {claimed_count} partitions, "
            f"its partition history has {log.partitions}",
            "restore the lineage topic of the aggregate, unless a broker has just come back",
        )


def gap(log: LogState, position: int) -> tuple[int, int]:
    """Return the range of commands from `position` to the committed offset: only control records may be there."""
    return (
        (position, log.committed)
        if log.committed is not None and log.committed > position
        else (position, position)
    )


def check_offset_in_log(topic: str, partition: int, offset: int, start: int, end: int) -> None:
    """Raise `UsageError` for an operator's offset that is not in the log."""
    if not start <= offset <= end:
        raise UsageError(
            f"{topic} partition {partition} has no offset {offset}",
            f"name an offset from {start} to {end}",
        )


def inconsistency_error(log: LogState, problem: str, next_offset: int) -> CqrsError:
    """Return the error with exit code 5. Its remedy names `next_offset`, or the nearest undecided offset in the log."""
    next_offset = min(max(next_offset, log.start, _known_decided_end(log)), log.end)
    if log.committed is not None and _was_loss_applied(log, next_offset):
        next_offset = log.committed
    accept_loss = format_position(log.partition, next_offset, log.aggregate)
    return ContradictionError(
        f"{log.topic} partition {log.partition}: {problem}",
        f"find out why; to go on from offset {next_offset}: cqrs run --accept-loss {accept_loss}",
    )


def _no_command_lost(log: LogState, position: int) -> bool:
    """Return True if an owner's committed offset proves that retention deleted no undecided command."""
    return (
        _is_committed_for_topic(log)
        and log.committed is not None
        and log.committed >= log.start
        and position <= log.committed
    )


def _is_committed_for_topic(log: LogState) -> bool:
    """Return True if an owner committed the offset while it decided this topic, not an earlier topic of this name."""
    return log.committed is not None and log.claim is not None and log.claim.topic_id == log.topic_id


def _has_claim_for_other_topic(log: LogState) -> bool:
    """Return True if the claim was committed when another topic had this name."""
    return log.claim is not None and log.claim.topic_id not in (UNKNOWN_TOPIC, log.topic_id)


def _accepted_loss(log: LogState) -> Accepted | None:
    """Return the loss that an operator accepted for this topic, not for an earlier topic of this name."""
    if log.claim is None or log.claim.topic_id != log.topic_id:
        return None
    return log.claim.accepted


def _was_loss_applied(log: LogState, offset: int) -> bool:
    """Return True if an owner has already continued from this offset, and the position has moved on since."""
    loss = _accepted_loss(log)
    return loss is not None and offset == loss.offset < (log.committed or 0) <= log.end


def _known_decided_end(log: LogState) -> int:
    """Return the offset in this topic below which every command is known to be decided or accepted as lost."""
    if _has_claim_for_other_topic(log):
        return 0
    last_records = ((log.last_outcome, log.last_outcome_matches), (log.last_event, log.last_event_matches))
    decided_ends = [offset + 1 for offset, matches in last_records if offset is not None and matches]
    if (loss := _accepted_loss(log)) is not None:
        decided_ends.append(loss.offset)
    if log.last_outcome is None and _is_committed_for_topic(log):
        decided_ends.append(log.committed or 0)
    return max((end for end in decided_ends if end <= log.end), default=0)


def _recreated_topic(log: LogState) -> str | None:
    """Return the name of another topic that was recreated since the last owner wrote to it, or None."""
    claimed_ids = UNKNOWN_TOPICS if log.claim is None else log.claim.other_ids
    for name, claimed_id, current_id in zip(("events", "outcomes"), claimed_ids, log.other_ids, strict=True):
        if claimed_id not in (UNKNOWN_TOPIC, current_id):
            return name
    if log.claim is not None and log.claim.deferred_id not in (UNKNOWN_TOPIC, log.deferred_id):
        return "deferred commands"
    return None
