"""Folds events into states. `fold_next` is the folding rule: it applies the next event of an aggregate.

Every fold calls `Aggregate.step`. Readers that need the event itself call `decode_event`.

Recovery, `show` and `verify` may read an event twice, so they call `fold_event`, which skips folded events. A replay
reads each event once, so it does not need `fold_event` (`scans.replay.fold`).
"""

from msgspec import Struct

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event, State
from cqrs_cli.core.aggregate.errors import PROCESS_ERRORS, class_line, is_interrupt
from cqrs_cli.core.aggregate.upcasting import UpcastError
from cqrs_cli.core.messages.event import EventEnvelope


class FoldError(Exception):
    """Events of an aggregate contradict each other or the code. The caller adds topic, partition and offset."""


class UnreadableEventError(FoldError):
    """The code cannot read an event: the type is unknown, or the data do not match the type's class."""


class VersionedState(Struct, frozen=True, gc=False):
    """The state of an aggregate, with the `version`, and the `offset`, `index` and `time` of its last event.

    The event's id is `<partition>/<offset>/<index>`. `partition` is None in a state from a shard, which does not store
    it.
    """

    version: int
    state: State
    offset: int
    index: int
    time: str = ""
    partition: int | None = None


def fold_event(aggregate: Aggregate, before: VersionedState | None, event: EventEnvelope) -> VersionedState:
    """Return the aggregate after `event`. An event that is already folded changes nothing.

    The version decides: an event of a lower version is skipped, an event of the present version must be the last folded
    event, and an event of the next version is applied. Raises `FoldError` otherwise, and the errors of `fold_next`.
    """
    if before is None:
        version, state = 0, aggregate.decider.initial
    else:
        version, state = before.version, before.state
        if event.aggregateversion <= version:
            if event.aggregateversion == version and not _is_last_event(event, before):
                raise FoldError(f"{event.subject!r} has two events of version {version}")
            return before
    next_state = fold_next(aggregate, version, state, event)
    partition, offset, index = event.position()
    return VersionedState(version + 1, next_state, offset, index, event.time, partition)


def _is_last_event(event: EventEnvelope, before: VersionedState) -> bool:
    """Return True if the state was folded up to this event."""
    partition, *position = event.position()
    return position == [before.offset, before.index] and before.partition in (None, partition)


def fold_next(aggregate: Aggregate, version: int, state: State, event: EventEnvelope) -> State:
    """Return the state after `event`, whose version must be `version + 1`. An upcaster converts the event first.

    Raises `FoldError` for any other version, for an event that the code cannot read, and if `evolve` raises. Process
    errors (`PROCESS_ERRORS`) pass through, without their message if it may contain personal values.
    """
    found_version = event.aggregateversion
    if found_version != version + 1:
        if found_version <= version:
            raise FoldError(
                f"{event.subject!r} is at version {version} and has another event of version {found_version}"
            )
        raise FoldError(
            f"{event.subject!r} is at version {version}, but its next event has version {found_version}: events are "
            "missing"
        )
    try:
        return aggregate.step(state, event.type, event.data)
    except PROCESS_ERRORS as error:
        aggregate.raise_redacted(error)
    except BaseException as error:  # the aggregate's code may raise any exception
        if is_interrupt(error):
            raise
        # Raises `UnreadableEventError` if the event, not `evolve`, is the cause.
        decode_event(aggregate, event)
        raise FoldError(
            f"evolve raised {aggregate.describe_error(error)} (on {event.type} {event.id})"
        ) from aggregate.redact_error(error)


def decode_event(aggregate: Aggregate, event: EventEnvelope) -> Event:
    """Return the event of a record, decoded by its class or by its upcaster.

    Raises `UnreadableEventError` for an unknown type, for data that do not match, and if the upcaster raises.
    """
    decode = aggregate.decode_event.get(event.type)
    if decode is None:
        raise UnreadableEventError(
            f"the code knows no event {event.type}: deploy the code that wrote it, or give it an upcaster"
        )
    try:
        return decode(event.data)
    except PROCESS_ERRORS as error:
        aggregate.raise_redacted(error)
    except BaseException as error:  # from the event's own `__post_init__`, or an upcaster
        if is_interrupt(error):
            raise
        message = _unreadable_message(aggregate, event, error)
        raise UnreadableEventError(message) from aggregate.redact_error(error)


def _unreadable_message(aggregate: Aggregate, event: EventEnvelope, error: BaseException) -> str:
    if event.datasha256 is not None:  # then the data are null, which matches no class
        return f"the data of {event.type} {event.id} are payload {event.datasha256[:64]}: set payload_store"
    if isinstance(error, UpcastError):
        return f"{error} (on {event.type} {event.id})"
    cls, message = aggregate.events.get(event.type), str(error)
    if cls is not None:
        message = aggregate.personal.redact_mismatch(message, cls, bytes(event.data))
    line = class_line(cls)
    return (
        f"{event.type} {event.id} does not match its class: {message}{line and f' ({line})'}; events stay as they "
        "were written: rename no field, give a new field a default, or give the event an upcaster"
    )
