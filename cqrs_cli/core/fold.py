"""Folding events into states: `fold_next` is the one rule, for a state whose next event is known to come.

`decode_event` is the one place that makes an event of a type and data: folds call it, and so does every other reader.

Recovery, `show` and `verify` may meet an event again, and call `fold_event`, which skips it. A replay reads a log from
its first event and parses no ids (`scans.replay.fold`). All of them, and deciding, make the step `Aggregate.step`.
"""

from msgspec import Struct

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Event, State
from cqrs_cli.core.aggregate.invalid import PROCESS_ERRORS, written_at
from cqrs_cli.core.aggregate.upcasting import UpcastError
from cqrs_cli.core.messages.event import EventEnvelope
from cqrs_cli.core.personal.words import withhold_misfit


class FoldError(Exception):
    """The events of an aggregate contradict each other or the code. The caller adds topic, partition and offset."""


class UnreadableEventError(FoldError):
    """The code cannot read an event: it knows no such type, or the data does not fit the type's class."""


class Folded(Struct, frozen=True, gc=False):
    """An aggregate after its last event, whose id is `<partition>/<offset>/<index>` and whose time is `time`."""

    version: int
    state: State
    offset: int
    index: int
    time: str = ""


def fold_event(aggregate: Aggregate, before: Folded | None, event: EventEnvelope) -> Folded:
    """The aggregate after `event`. Idempotent by version: an event that is already folded changes nothing.

    Versions below the present one are skipped, an equal one must be the same event, the next one is applied. Raises
    `FoldError` for anything else, and as `fold_next` does.
    """
    if before is None:
        version, state = 0, aggregate.decider.initial
    else:
        version, state = before.version, before.state
        if event.aggregateversion <= version:
            if event.aggregateversion == version and event.position()[1:] != (before.offset, before.index):
                raise FoldError(f"{event.subject!r} has two events of version {version}")
            return before
    after = fold_next(aggregate, version, state, event)
    _, offset, index = event.position()
    return Folded(version + 1, after, offset, index, event.time)


def fold_next(aggregate: Aggregate, version: int, state: State, event: EventEnvelope) -> State:
    """The state after `event`, which must be the next one after `version`.

    An event that has an upcaster is the one of today that it gives. Raises `FoldError` for another version, for an
    event that the code cannot read, and if `evolve` raises. Errors of the process come out as they may be shown.
    """
    found = event.aggregateversion
    if found != version + 1:
        if found <= version:
            raise FoldError(
                f"{event.subject!r} is at version {version} and has another event of version {found}"
            )
        raise FoldError(
            f"{event.subject!r} is at version {version}, its next event has {found}: events are missing"
        )
    try:
        return aggregate.step(state, event.type, event.data)
    except KeyboardInterrupt:
        raise
    except PROCESS_ERRORS as error:
        aggregate.raise_shown(error)
    except BaseException as error:  # the aggregate's own code: anything may come
        decode_event(aggregate, event)  # raises if it is the event that cannot be read
        raise FoldError(
            f"evolve raised {aggregate.raised(error)} (on {event.type} {event.id})"
        ) from aggregate.shown(error)


def decode_event(aggregate: Aggregate, event: EventEnvelope) -> Event:
    """The event of today that a record holds, by its class or its upcaster.

    Raises `UnreadableEventError` for one that has neither, for data that does not fit, and for an upcaster that raises.
    """
    decode = aggregate.decode_event.get(event.type)
    if decode is None:
        raise UnreadableEventError(
            f"the code knows no event {event.type}: deploy the code that wrote it, or give it an upcaster"
        )
    try:
        return decode(event.data)
    except PROCESS_ERRORS as error:
        aggregate.raise_shown(error)
    except Exception as error:
        raise UnreadableEventError(_unreadable(aggregate, event, error)) from aggregate.shown(error)


def _unreadable(aggregate: Aggregate, event: EventEnvelope, error: Exception) -> str:
    if event.datasha256 is not None:  # then the data are null, which no class takes
        return f"the data of {event.type} {event.id} are payload {event.datasha256[:64]}: set payload_store"
    if isinstance(error, UpcastError):
        return f"{error} (on {event.type} {event.id})"
    cls, said = aggregate.events.get(event.type), str(error)
    if aggregate.has_personal_fields and cls is not None:
        said = withhold_misfit(said, cls, bytes(event.data))
    place = written_at(cls)
    return (
        f"{event.type} {event.id} does not fit its class: {said}{place and f' ({place})'}; events stay as they "
        "were written: rename no field, give a new one a default, or give the event an upcaster"
    )
