"""The start of an owner, judged from the position record and the log: pure functions."""

from typing import NamedTuple

import msgspec
from msgspec import Struct

from cqrs_cli.deciding.position import check_place
from cqrs_cli.errors import ConfigurationError, ContradictionError, CqrsError, UsageError
from cqrs_cli.kafka.event_tail import EventPartition
from cqrs_cli.kafka.named_place import spell_position
from cqrs_cli.ownership.claim import Claim


class ProcessPosition(Struct, frozen=True, omit_defaults=True):
    """The value of a position record. The claim knows the events topic's id and its number of partitions."""

    offset: int  # of the next event
    claim: Claim
    stopped: int | None = None  # the event at `offset` ended the process
    skipped: int | None = None  # the last event that an operator skipped
    accepted: int | None = None  # where an operator last said to go on after a loss
    skipped_before: tuple[int, ...] = ()  # the events that were skipped before `skipped`

    @property
    def all_skipped(self) -> tuple[int, ...]:
        """Every event of the partition that an operator has skipped."""
        return self.skipped_before if self.skipped is None else (*self.skipped_before, self.skipped)

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def read_position(value: bytes | None) -> ProcessPosition:
    """The position in a record; raises `ValueError` for any other value."""
    try:
        return msgspec.json.decode(value or b"", type=ProcessPosition)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def position_key(source: EventPartition) -> bytes:
    """The key of a partition's position record."""
    return f"{source.topic}/{source.partition}".encode()


class SourceState(NamedTuple):
    """The facts about one partition of events, for one process."""

    process: str
    source: EventPartition
    topic_id: str
    partitions: int
    start: int  # of the log
    stable: int  # its last stable offset
    end: int  # its high watermark
    position: ProcessPosition | None
    group: int | None  # the offset of the process's group; None if it has none, or it expired
    has_grown: bool = False  # the topic has more partitions than it began with


class Resumed(NamedTuple):
    """The offset to go on from, and the notes that go with it from now on."""

    offset: int
    stopped: int | None = None
    skipped: int | None = None
    accepted: int | None = None
    skipped_before: tuple[int, ...] = ()


def resume(
    state: SourceState, *, beginning: bool = False, skip: int | None = None, accept: int | None = None
) -> Resumed:
    """The place at which the process goes on: its position, or, if it is new, the end or the beginning of the log.

    Raises `ConfigurationError` if the number of partitions changed, `ContradictionError` for a position that the log
    does not have. `accept` is an operator's word for where to go on in spite of that: it counts once, and only then.
    `skip` counts for exactly the event that ended the process.
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
            return Resumed(accept, accepted=accept)  # what was skipped were events of another topic
        return Resumed(accept, None, found.skipped, accept, found.skipped_before)
    if found is None:
        return Resumed(state.start if beginning else state.stable)
    if skip is not None and skip == found.stopped == found.offset:
        return Resumed(skip + 1, None, skip, found.accepted, found.all_skipped)
    return Resumed(found.offset, found.stopped, found.skipped, found.accepted, found.skipped_before)


def _has_followed(claimed: int, state: SourceState) -> bool:
    """True if the number of partitions is that of the claim, or has grown from it."""
    return claimed == state.partitions or (state.has_grown and state.partitions % claimed == 0)


def _is_spent(found: ProcessPosition, state: SourceState, accept: int) -> bool:
    """True if this very word was obeyed in this very log."""
    return found.accepted == accept and found.claim.topic_id == state.topic_id


def position_contradiction(state: SourceState) -> CqrsError | None:
    """The error of exit code 5 for a position that the log does not have; None if there is nothing wrong."""
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
    place = spell_position(state.source.partition, onward, f"{state.process}:{state.source.aggregate}")
    return ContradictionError(
        f"process {state.process}, {state.source.topic} partition {state.source.partition}: {what}",
        f"find out why; to go on from offset {onward}: cqrs run --process {state.process} --accept-loss {place}",
    )


def check_skip(state: SourceState, skip: int) -> None:
    """Raise `UsageError` for an event that did not end the process; one that lies behind it passes: it was skipped."""
    found = state.position
    if found is not None and (found.offset > skip or skip == found.stopped == found.offset):
        return
    where = "it is new" if found is None else f"it stands at {found.offset}"
    raise UsageError(
        f"process {state.process} was not stopped by event {spell_position(state.source.partition, skip)} of"
        f" {state.source.topic}: {where}",
        "leave out --skip: only the event that ended a process can be skipped",
    )
