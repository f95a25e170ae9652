"""Determines an owner's start from the position record and the log: pure functions."""

from typing import NamedTuple

import msgspec
from msgspec import Struct

from cqrs_cli.deciding.position import check_offset_in_log
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UsageError
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.ownership.claim import Claim


class ProcessPosition(Struct, frozen=True, omit_defaults=True):
    """The value of a position record. The claim contains the events topic's id and its number of partitions."""

    offset: int  # the offset of the next event
    claim: Claim
    stopped: int | None = None  # the offset of the event that stopped the process manager; it equals `offset`
    skipped: int | None = None  # the offset of the last event that an operator skipped
    accepted: int | None = None  # the offset at which it continued after the last accepted loss
    skipped_before: tuple[int, ...] = ()  # offsets of the events that were skipped before `skipped`
    start: int | None = (
        None  # the first event for which it sends commands; None in records of an earlier release
    )

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
    topic_id: str
    partitions: int
    start: int  # first offset of the log
    stable: int  # last stable offset of the log
    end: int  # high watermark of the log
    position: ProcessPosition | None
    group: int | None  # the group's offset; None if there is none, or it expired
    is_repartitioned: bool = False  # True if the topic was repartitioned


class StartPosition(NamedTuple):
    """The offset at which to continue, and the other fields of the next position record."""

    offset: int
    stopped: int | None = None
    skipped: int | None = None
    accepted: int | None = None
    skipped_before: tuple[int, ...] = ()
    start: int | None = None


def start_position(
    state: SourceState, *, beginning: bool = False, skip: int | None = None, accepted_loss: int | None = None
) -> StartPosition:
    """Return the start of an owner: its position, or for a new process manager the end or the beginning of the log.

    Raises `ConfigurationError` if the number of partitions changed, `ContradictionError` for a position outside the
    log. `accepted_loss`: the offset at which to continue after a loss, as an operator chose it. It applies once, and
    only if there would be a `ContradictionError`. `skip` applies only to the event that stopped the process manager.
    """
    position = state.position
    if position is not None and not _matches_count(position.claim.partitions, state):
        raise ConfigurationError(
            f"{state.source.topic} had {position.claim.partitions} partitions and now has {state.partitions}",
            "if partitions were added with another tool, cqrs repartition records them; otherwise recreate the topic "
            "with the old count",
        )
    error = position_error(state)
    if error is None and position is None and beginning and state.start > 0:
        error = _contradiction(
            state, f"it starts at the beginning, but events before {state.start} are deleted", state.start
        )
    if error is not None:
        if accepted_loss is None or (position is not None and _was_applied(position, state, accepted_loss)):
            raise error
        check_offset_in_log(state.source.topic, state.source.partition, accepted_loss, state.start, state.end)
        if position is None or position.claim.topic_id != state.topic_id:
            # Skipped events belonged to the old topic.
            return StartPosition(accepted_loss, accepted=accepted_loss)
        start = None if position.start is None else min(position.start, accepted_loss)
        skipped, skipped_before = position.skipped, position.skipped_before
        return StartPosition(accepted_loss, None, skipped, accepted_loss, skipped_before, start)
    if position is None:
        offset = state.start if beginning else state.stable
        return StartPosition(offset, start=offset)
    if skip is not None and skip == position.stopped == position.offset:
        return StartPosition(skip + 1, None, skip, position.accepted, position.all_skipped, position.start)
    unchanged = position.skipped, position.accepted, position.skipped_before
    return StartPosition(position.offset, position.stopped, *unchanged, position.start)


def _matches_count(claimed_count: int, state: SourceState) -> bool:
    """Return True if the number of partitions equals the claim's number, or is the result of a repartitioning since."""
    return claimed_count == state.partitions or (
        state.is_repartitioned and state.partitions % claimed_count == 0
    )


def _was_applied(position: ProcessPosition, state: SourceState, accepted_loss: int) -> bool:
    """Return True if this accepted loss was already applied in this log."""
    return position.accepted == accepted_loss and position.claim.topic_id == state.topic_id


def position_error(state: SourceState) -> CqrsError | None:
    """Return the error (exit code 5) for a position that does not fit the log; None if the position fits."""
    position, group = state.position, state.group
    if position is None:
        if group is None:
            return None  # a new process manager
        problem = f"the group's offset is {group}, but no position is recorded: the positions topic is lost"
        return _contradiction(state, problem, group)
    if position.claim.topic_id != state.topic_id:
        return _contradiction(state, "the topic was recreated", state.start)
    if group is not None and group != position.offset:
        problem = (
            f"the position is {position.offset}, but the group's offset is {group}: another program moved it"
        )
        return _contradiction(state, problem, position.offset)
    if position.offset < state.start:
        problem = f"the position is {position.offset}, but events before {state.start} are deleted"
        return _contradiction(state, problem, state.start)
    if position.offset > state.end:
        return _contradiction(
            state, f"the position is {position.offset}, but the log ends at {state.end}", state.end
        )
    return None


def _contradiction(state: SourceState, problem: str, continue_at: int) -> CqrsError:
    continue_at = min(max(continue_at, state.start), state.end)
    address = format_position(
        state.source.partition, continue_at, f"{state.process}:{state.source.aggregate}"
    )
    return ContradictionError(
        f"process {state.process}, {state.source.topic} partition {state.source.partition}: {problem}",
        f"find out why; to continue at offset {continue_at}: cqrs run --process {state.process} --accept-loss "
        f"{address}",
    )


def check_skip(state: SourceState, skip: int) -> None:
    """Raise `UsageError` for an event that did not stop the process manager.

    An event before the position passes: it is already processed or skipped.
    """
    position = state.position
    if position is not None and (position.offset > skip or skip == position.stopped == position.offset):
        return
    reason = "it has not started" if position is None else f"its position is {position.offset}"
    raise UsageError(
        f"process {state.process} was not stopped by event {format_position(state.source.partition, skip)} of"
        f" {state.source.topic}: {reason}",
        "leave out --skip: only the event that stopped a process manager can be skipped",
    )
