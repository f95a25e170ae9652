"""The position record of a process manager, and pure functions that determine at which offset an owner starts."""

from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from cqrs_cli.deciding.position import check_offset_in_log
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UsageError
from cqrs_cli.following.last_error import LastError
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.ownership.claim import Claim


class Skip(Struct, frozen=True):
    """An operator's decision to skip an event. Sample: `Skip(250, 1765532418123, "ann")`."""

    offset: int  # offset of the skipped event
    time: int  # time of the decision, ms since 1970
    actor: str  # the operator; empty if unknown


class ProcessPosition(Struct, frozen=True, omit_defaults=True):
    """The value of a position record: one process manager's position in one events partition."""

    offset: int  # the offset of the next event
    claim: Claim  # also contains the id and the partition count of the events topic
    stopped: int | None = None  # the offset of the event that stopped the process manager; it equals `offset`
    skipped: int | None = None  # the offset of the last event that an operator skipped
    #: The offset at which the process manager continued after the last accepted loss.
    accepted: int | None = None
    skipped_before: tuple[int, ...] = ()  # offsets of the events that were skipped before `skipped`
    #: The offset of the first event for which it may send commands; None in records of an earlier release.
    start: int | None = None
    error: LastError | None = None  # why the process manager stopped; None after the next committed batch
    skips: tuple[Skip, ...] = ()  # the operators' skips; events that an earlier release skipped have no entry

    @property
    def all_skipped(self) -> tuple[int, ...]:
        """The offsets of all events of the partition that an operator has skipped, in ascending order."""
        return self.skipped_before if self.skipped is None else (*self.skipped_before, self.skipped)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def read_position(value: bytes | None) -> ProcessPosition:
    """Decode a position record; raises `ValueError` for any other value."""
    try:
        return msgspec.json.decode(value or b"", type=ProcessPosition)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def position_key(source: EventPartition) -> bytes:
    """Return the key of a partition's position record, such as `order.events/3`."""
    return f"{source.topic}/{source.partition}".encode()


class SourceState(NamedTuple):
    """The state of one events partition for one process manager."""

    process: str
    source: EventPartition
    topic_id: str  # present id of the events topic
    partition_count: int  # present partition count of the events topic
    log_start: int  # first offset of the log
    stable_end: int  # last stable offset of the log
    log_end: int  # high watermark of the log
    position: ProcessPosition | None  # None if no position is recorded
    group_offset: int | None  # committed offset of the group; None if there is none, or if it has expired
    is_repartitioned: bool = False  # True if the topic was repartitioned


class StartPosition(NamedTuple):
    """The offset at which an owner starts, and the fields of its first position record (see `ProcessPosition`)."""

    offset: int
    stopped: int | None = None
    skipped: int | None = None
    accepted: int | None = None
    skipped_before: tuple[int, ...] = ()
    start: int | None = None
    error: LastError | None = None
    skips: tuple[Skip, ...] = ()


def start_position(
    state: SourceState,
    *,
    from_beginning: bool = False,
    skip: int | None = None,
    accepted_loss: int | None = None,
    actor: str = "",
    now: int = 0,
) -> StartPosition:
    """Return the start of an owner: the recorded position. A new process manager starts at the end of the log, or with
    `from_beginning` at its beginning.

    Raises `ConfigurationError` if the number of partitions changed, `ContradictionError` if the position does not fit
    the log. `accepted_loss`: the offset at which an operator lets the process manager continue instead of the
    `ContradictionError`; it applies only once. `skip`: the offset of an event to skip; it applies only to the event
    that stopped the process manager, and is recorded with `actor` and `now` (ms).
    """
    position = state.position
    if position is not None and not _matches_count(position.claim.partitions, state):
        raise ConfigurationError(
            f"{state.source.topic} had {position.claim.partitions} partitions and now has {state.partition_count}",
            "if partitions were added with another tool, cqrs repartition records them; otherwise recreate the topic "
            "with the old count",
        )
    error = position_error(state)
    if error is None and position is None and from_beginning and state.log_start > 0:
        error = _contradiction(
            state,
            f"it starts at the beginning, but events before {state.log_start} are deleted",
            state.log_start,
        )
    if error is not None:
        if accepted_loss is None or (position is not None and _was_applied(position, state, accepted_loss)):
            raise error
        check_offset_in_log(
            state.source.topic, state.source.partition, accepted_loss, state.log_start, state.log_end
        )
        if position is None or position.claim.topic_id != state.topic_id:
            # Skipped events belonged to the old topic.
            return StartPosition(accepted_loss, accepted=accepted_loss)
        start = None if position.start is None else min(position.start, accepted_loss)
        skipped = position.skipped
        return StartPosition(
            accepted_loss, None, skipped, accepted_loss, position.skipped_before, start, skips=position.skips
        )
    if position is None:
        offset = state.log_start if from_beginning else state.stable_end
        return StartPosition(offset, start=offset)
    if skip is not None and skip == position.stopped == position.offset:
        position = skipped_position(position, actor, now)
    unchanged = position.skipped, position.accepted, position.skipped_before
    return StartPosition(
        position.offset, position.stopped, *unchanged, position.start, position.error, position.skips
    )


def skipped_position(position: ProcessPosition, actor: str, now: int) -> ProcessPosition:
    """Return the position after an operator has skipped the event that stopped the process manager."""
    assert position.stopped is not None
    return replace(
        position,
        offset=position.stopped + 1,
        stopped=None,
        skipped=position.stopped,
        skipped_before=position.all_skipped,
        error=None,
        skips=(*position.skips, Skip(position.stopped, now, actor)),
    )


def _matches_count(claimed_count: int, state: SourceState) -> bool:
    """Return True if the present partition count is `claimed_count`, or a multiple of it in a repartitioned topic."""
    return claimed_count == state.partition_count or (
        state.is_repartitioned and state.partition_count % claimed_count == 0
    )


def _was_applied(position: ProcessPosition, state: SourceState, accepted_loss: int) -> bool:
    """Return True if an earlier owner has already continued at `accepted_loss` in this topic."""
    return position.accepted == accepted_loss and position.claim.topic_id == state.topic_id


def position_error(state: SourceState) -> CqrsError | None:
    """Return the error (exit code 5) for a position that does not fit the log; None if the position fits."""
    position, group_offset = state.position, state.group_offset
    if position is None:
        if group_offset is None:
            return None  # a new process manager
        problem = (
            f"the group's offset is {group_offset}, but no position is recorded: the positions topic is lost"
        )
        return _contradiction(state, problem, group_offset)
    if position.claim.topic_id != state.topic_id:
        return _contradiction(state, "the topic was recreated", state.log_start)
    if group_offset is not None and group_offset != position.offset:
        problem = (
            f"the position is {position.offset}, but the group's offset is {group_offset}: another program moved"
            " it"
        )
        return _contradiction(state, problem, position.offset)
    if position.offset < state.log_start:
        problem = f"the position is {position.offset}, but events before {state.log_start} are deleted"
        return _contradiction(state, problem, state.log_start)
    if position.offset > state.log_end:
        return _contradiction(
            state, f"the position is {position.offset}, but the log ends at {state.log_end}", state.log_end
        )
    return None


def _contradiction(state: SourceState, problem: str, continue_at: int) -> CqrsError:
    continue_at = min(max(continue_at, state.log_start), state.log_end)
    position_text = format_position(
        state.source.partition, continue_at, f"{state.process}:{state.source.aggregate}"
    )
    return ContradictionError(
        f"process {state.process}, {state.source.topic} partition {state.source.partition}: {problem}",
        f"find out why; to continue at offset {continue_at}: cqrs run --process {state.process} --accept-loss "
        f"{position_text}",
    )


def check_skip(state: SourceState, skip: int) -> None:
    """Raise `UsageError` if the event at offset `skip` did not stop the process manager.

    No error is raised for an event before the position: it is already processed or skipped.
    """
    position = state.position
    if position is not None and (position.offset > skip or skip == position.stopped == position.offset):
        return
    raise skipping_error(state.process, state.source, position, skip)


def skipping_error(
    process: str, source: EventPartition, position: ProcessPosition | None, skip: int
) -> UsageError:
    """Return the error for an event that did not stop the process manager."""
    reason = "it has not started" if position is None else f"its position is {position.offset}"
    return UsageError(
        f"process {process} was not stopped by event {format_position(source.partition, skip)} of"
        f" {source.topic}: {reason}",
        "leave out --skip: only the event that stopped a process manager can be skipped",
    )
