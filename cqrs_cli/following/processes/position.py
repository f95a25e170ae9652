"""Determines an owner's start from the position record and the log: pure functions."""

from typing import NamedTuple

import msgspec
from msgspec import Struct

from cqrs_cli.deciding.position import check_place
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UsageError
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.position_notation import format_position
from cqrs_cli.ownership.claim import Claim


class ProcessPosition(Struct, frozen=True, omit_defaults=True):
    """The value of a position record. The claim contains the events topic's id and its number of partitions."""

    offset: int  # of the next event
    claim: Claim
    stopped: int | None = None  # the event that stopped the process manager; equals `offset`
    skipped: int | None = None  # the last event skipped by an operator
    accepted: int | None = None  # the start offset of the last accepted loss
    skipped_before: tuple[int, ...] = ()  # events skipped before `skipped`

    @property
    def all_skipped(self) -> tuple[int, ...]:
        """All events of the partition that an operator has skipped."""
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
    start: int  # of the log
    stable: int  # last stable offset of the log
    end: int  # high watermark of the log
    position: ProcessPosition | None
    group: int | None  # the group's offset; None if there is none, or it expired
    has_grown: bool = False  # the topic was repartitioned


class StartPosition(NamedTuple):
    """The offset at which to continue, and the other fields of the next position record."""

    offset: int
    stopped: int | None = None
    skipped: int | None = None
    accepted: int | None = None
    skipped_before: tuple[int, ...] = ()


def resume(
    state: SourceState, *, beginning: bool = False, skip: int | None = None, accept: int | None = None
) -> StartPosition:
    """Return the start of an owner: its position, or for a new process manager the end or the beginning of the log.

    Raises `ConfigurationError` if the number of partitions changed, `ContradictionError` for a position outside the
    log. `accept` is an operator's start offset after a loss: it applies once, and only after this error. `skip` applies
    only to the event that stopped the process manager.
    """
    found = state.position
    if found is not None and not _has_followed(found.claim.partitions, state):
        raise ConfigurationError(
            f"{state.source.topic} had {found.claim.partitions} partitions and now has {state.partitions}",
            "if it was grown by hand, cqrs repartition adopts it; else recreate it with the old count",
        )
    error = position_contradiction(state)
    if error is not None:
        if accept is None or (found is not None and _is_spent(found, state, accept)):
            raise error
        check_place(state.source.topic, state.source.partition, accept, state.start, state.end)
        if found is None or found.claim.topic_id != state.topic_id:
            return StartPosition(accept, accepted=accept)  # skipped events belonged to the old topic
        return StartPosition(accept, None, found.skipped, accept, found.skipped_before)
    if found is None:
        return StartPosition(state.start if beginning else state.stable)
    if skip is not None and skip == found.stopped == found.offset:
        return StartPosition(skip + 1, None, skip, found.accepted, found.all_skipped)
    return StartPosition(found.offset, found.stopped, found.skipped, found.accepted, found.skipped_before)


def _has_followed(claimed: int, state: SourceState) -> bool:
    """Return True if the number of partitions equals the claim's number, or is the result of a repartitioning since."""
    return claimed == state.partitions or (state.has_grown and state.partitions % claimed == 0)


def _is_spent(found: ProcessPosition, state: SourceState, accept: int) -> bool:
    """Return True if this accepted loss was already applied in this log."""
    return found.accepted == accept and found.claim.topic_id == state.topic_id


def position_contradiction(state: SourceState) -> CqrsError | None:
    """Return the error (exit code 5) for a position that does not fit the log; None if the position fits."""
    found, group = state.position, state.group
    if found is None:
        if group is None:
            return None  # a new process
        what = (
            f"the group's offset is {group}, but no position is recorded: its topic was deleted or made again"
        )
        return _error(state, what, group)
    if found.claim.topic_id != state.topic_id:
        return _error(state, "the topic was deleted and made again", state.start)
    if group is not None and group != found.offset:
        what = f"the position is {found.offset}, but the group's offset is {group}: somebody moved it"
        return _error(state, what, found.offset)
    if found.offset < state.start:
        what = f"the position is {found.offset}, but events before {state.start} are deleted"
        return _error(state, what, state.start)
    if found.offset > state.end:
        return _error(state, f"the position is {found.offset}, but the log ends at {state.end}", state.end)
    return None


def _error(state: SourceState, what: str, onward: int) -> CqrsError:
    onward = min(max(onward, state.start), state.end)
    place = format_position(state.source.partition, onward, f"{state.process}:{state.source.aggregate}")
    return ContradictionError(
        f"process {state.process}, {state.source.topic} partition {state.source.partition}: {what}",
        f"find out why; to go on from offset {onward}: cqrs run --process {state.process} --accept-loss {place}",
    )


def check_skip(state: SourceState, skip: int) -> None:
    """Raise `UsageError` for an event that did not stop the process manager.

    An event before the position passes: it is already processed or skipped.
    """
    found = state.position
    if found is not None and (found.offset > skip or skip == found.stopped == found.offset):
        return
    where = "it is new" if found is None else f"it stands at {found.offset}"
    raise UsageError(
        f"process {state.process} was not stopped by event {format_position(state.source.partition, skip)} of"
        f" {state.source.topic}: {where}",
        "leave out --skip: only the event that ended a process can be skipped",
    )
