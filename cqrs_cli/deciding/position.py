"""The position of an owner, derived from the log alone: a pure function, so that every case has a test."""

from typing import NamedTuple

from cqrs_cli.errors import ContradictionError, CqrsError, UsageError
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.kafka.topics.count_errors import partition_count_error
from cqrs_cli.ownership.claim import UNKNOWN_TOPIC, UNKNOWN_TOPICS, AcceptedLoss, Claim


class LogState(NamedTuple):
    """The state of one partition's logs, from which `position` derives the next offset. All offsets, except for
    `outcomes_start`, are offsets of the commands topic. Outcomes and events before an accepted loss do not count.
    """

    aggregate: str
    topic: str
    partition: int
    topic_id: str
    other_ids: tuple[str, str]  # topic ids of the events and the outcomes
    partitions: int  # the count by which this partition assigns keys
    start: int  # log start of the commands
    end: int  # high watermark of the commands
    last_outcome_command: int | None  # the offset of the command of the last visible outcome
    last_outcome_matches: bool  # that command is at this offset, so the commands topic was not recreated
    outcomes_start: int  # log start of the outcomes: above 0 once retention has deleted outcomes
    has_events: bool  # there is a visible event
    #: The offset of the command of the last visible event; None if there is no event, or the event is unreadable.
    last_event_command: int | None
    last_event_matches: (
        bool  # the event's command is at this offset; False, unchecked, if the outcome matches
    )
    is_new: bool  # the commands topic is new: all commands have later timestamps than the last outcome
    committed: int | None  # the group's offset; None if there is none, or it expired
    claim: Claim | None  # the committed claim, in the metadata of the group's offset
    deferred_id: str = UNKNOWN_TOPIC  # topic id of the deferred commands
    was_repartitioned: bool = False  # the partitions of the aggregate may have different effective counts


def position(state: LogState, accept_loss: int | None = None) -> int:
    """Return the offset of the next command to decide. The caller has to check that the range `gap(state, offset)`,
    which begins at this offset, contains only control records.

    Raises `ConfigurationError` if the partition count changed, `ContradictionError` if continuing would lose or repeat
    a decision. `accept_loss`: the offset from which an operator wants to continue. Raises `UsageError` if the log does
    not have this offset. If continuing there would repeat decisions, the offset was meant for an earlier loss, and is
    ignored. An accepted loss in the claim is valid until a command is decided after it.
    """
    if state.claim is not None:
        _check_partition_count(state, state.claim.partitions)
    if (
        accept_loss is not None
        and not _was_loss_applied(state, accept_loss)
        and accept_loss >= _known_decided_end(state)
    ):
        check_offset_in_log(state.topic, state.partition, accept_loss, state.start, state.end)
        return accept_loss
    if _has_claim_for_other_topic(state):
        raise inconsistency_error(state, "the topic was deleted and created again", state.start)
    loss = _accepted_loss(state)
    next_offset = 0 if state.last_outcome_command is None else state.last_outcome_command + 1
    if (recreated := _recreated_topic(state)) is not None:
        problem = f"the topic of its {recreated} was deleted and created again"
        raise inconsistency_error(state, problem, max(next_offset, state.committed or 0))
    if state.last_outcome_command is None and loss is not None and state.outcomes_start <= loss.outcomes:
        next_offset = loss.offset
    elif state.last_outcome_command is None and state.outcomes_start > 0 and _is_committed_for_topic(state):
        # Retention has deleted all outcomes. The last event may be later than the committed offset.
        event_end = 0 if state.last_event_command is None else state.last_event_command + 1
        next_offset = max(state.committed or 0, event_end)
    elif state.last_outcome_command is None and state.has_events:
        raise inconsistency_error(
            state,
            "there are events but no outcome, so it is unknown which commands were decided",
            state.start,
        )
    if state.last_event_command is not None and state.last_event_command >= next_offset:
        problem = f"command {state.last_event_command} has events but no outcome"
        raise inconsistency_error(state, problem, state.last_event_command + 1)
    has_outcome = state.last_outcome_command is not None
    if has_outcome and state.committed is not None and state.committed < next_offset:
        raise inconsistency_error(
            state, f"offset {state.committed} is committed but {next_offset - 1} is decided", next_offset
        )
    if next_offset > state.end:
        problem = f"offset {next_offset - 1} is decided but the log ends at {state.end}"
        raise inconsistency_error(state, problem, state.start if state.is_new else state.end)
    if next_offset < state.start and not _no_command_lost(state, next_offset):
        problem = f"commands {next_offset} to {state.start - 1} were deleted before they were decided"
        raise inconsistency_error(
            state, f"{problem}, unless they belonged to aborted transactions", state.start
        )
    if state.committed is not None and state.committed > state.end:
        raise inconsistency_error(
            state, f"offset {state.committed} is committed but the log ends at {state.end}", next_offset
        )
    return max(next_offset, state.start)


def _check_partition_count(state: LogState, claimed_count: int) -> None:
    """Compare the partition count in the claim with the count in the partition history. A split commits both in one
    transaction, so a lower count in the history shows that the history is incomplete.
    """
    if not state.was_repartitioned and claimed_count != state.partitions:
        raise partition_count_error(state.aggregate, state.topic, claimed_count, state.partitions)
    if claimed_count > state.partitions:
        raise ContradictionError(
            f"{state.topic} partition {state.partition} has split to {claimed_count} partitions, "
            f"its partition history has {state.partitions}",
            "if a broker has just come back, try again; otherwise restore the lineage topic of the aggregate",
        )


def gap(state: LogState, position: int) -> tuple[int, int]:
    """Return the range (start, end) from `position` to the committed offset, in which only control records may be."""
    return (
        (position, state.committed)
        if state.committed is not None and state.committed > position
        else (position, position)
    )


def check_offset_in_log(topic: str, partition: int, offset: int, start: int, end: int) -> None:
    """Raise `UsageError` for an operator's offset that is not in the log."""
    if not start <= offset <= end:
        raise UsageError(
            f"{topic} partition {partition} has no offset {offset}",
            f"name an offset from {start} to {end}",
        )


def inconsistency_error(state: LogState, problem: str, next_offset: int) -> CqrsError:
    """Return the error with exit code 5. Its remedy names `next_offset`, or the nearest undecided offset in the log."""
    next_offset = min(max(next_offset, state.start, _known_decided_end(state)), state.end)
    if state.committed is not None and _was_loss_applied(state, next_offset):
        next_offset = state.committed
    accept_loss = format_position(state.partition, next_offset, state.aggregate)
    return ContradictionError(
        f"{state.topic} partition {state.partition}: {problem}",
        f"find out why; to continue from offset {next_offset}: cqrs run --accept-loss {accept_loss}",
    )


def _no_command_lost(state: LogState, position: int) -> bool:
    """Return True if an owner's committed offset proves that retention deleted no undecided command."""
    return (
        _is_committed_for_topic(state)
        and state.committed is not None
        and state.committed >= state.start
        and position <= state.committed
    )


def _is_committed_for_topic(state: LogState) -> bool:
    """Return True if an owner committed the offset while it decided this topic, not an earlier topic of this name."""
    return state.committed is not None and state.claim is not None and state.claim.topic_id == state.topic_id


def _has_claim_for_other_topic(state: LogState) -> bool:
    """Return True if the claim was committed when another topic had this name."""
    return state.claim is not None and state.claim.topic_id not in (UNKNOWN_TOPIC, state.topic_id)


def _accepted_loss(state: LogState) -> AcceptedLoss | None:
    """Return the loss that an operator accepted for this topic, not for an earlier topic of this name."""
    if state.claim is None or state.claim.topic_id != state.topic_id:
        return None
    return state.claim.accepted


def _was_loss_applied(state: LogState, offset: int) -> bool:
    """Return True if an owner has already continued from this offset, and the position has moved on since."""
    loss = _accepted_loss(state)
    return loss is not None and offset == loss.offset < (state.committed or 0) <= state.end


def _known_decided_end(state: LogState) -> int:
    """Return the highest offset in this topic below which all commands are certainly decided or accepted as lost."""
    if _has_claim_for_other_topic(state):
        return 0
    last_records = (
        (state.last_outcome_command, state.last_outcome_matches),
        (state.last_event_command, state.last_event_matches),
    )
    decided_ends = [offset + 1 for offset, matches in last_records if offset is not None and matches]
    if (loss := _accepted_loss(state)) is not None:
        decided_ends.append(loss.offset)
    if state.last_outcome_command is None and _is_committed_for_topic(state):
        decided_ends.append(state.committed or 0)
    return max((end for end in decided_ends if end <= state.end), default=0)


def _recreated_topic(state: LogState) -> str | None:
    """Return the name of another topic that was recreated since the last owner wrote to it, or None."""
    claimed_ids = UNKNOWN_TOPICS if state.claim is None else state.claim.other_ids
    for name, claimed_id, current_id in zip(
        ("events", "outcomes"), claimed_ids, state.other_ids, strict=True
    ):
        if claimed_id not in (UNKNOWN_TOPIC, current_id):
            return name
    if state.claim is not None and state.claim.deferred_id not in (UNKNOWN_TOPIC, state.deferred_id):
        return "deferred commands"
    return None
