"""Folding events into states. One rule everywhere: live recovery, replay, `show` and checks."""

from msgspec import Struct

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.aggregate.invalid import raised
from cqrs_cli.core.messages.event import EventEnvelope


class FoldError(Exception):
    """The events of an aggregate contradict each other or the code. The caller adds topic, partition and offset."""


class Folded(Struct, frozen=True, gc=False):
    """An aggregate after its last event, whose id is `<partition>/<offset>/<index>` and whose time is `time`."""

    version: int
    state: State
    offset: int
    index: int
    time: str = ""


def fold_event(aggregate: Aggregate, before: Folded | None, event: EventEnvelope) -> Folded:
    """The aggregate after `event`. Idempotent by version: what is already folded changes nothing.

    Versions below the present one are skipped, an equal one must be the same event, the next one is applied. Raises
    `FoldError` for anything else, for an event type that the code does not know, and when `evolve` raises.
    """
    version = before.version if before else 0
    if event.aggregateversion != version + 1:
        if before is None or event.aggregateversion > version:
            raise FoldError(
                f"{event.subject!r} is at version {version}, the next event has {event.aggregateversion}"
            )
        if event.aggregateversion == version and event.position()[1:] != (before.offset, before.index):
            raise FoldError(f"{event.subject!r} has two events of version {version}")
        return before
    _, offset, index = event.position()
    state = before.state if before else aggregate.decider.initial
    return Folded(version + 1, evolve(aggregate, state, event), offset, index, event.time)


def evolve(aggregate: Aggregate, state: State, event: EventEnvelope) -> State:
    """`state` after one event read from the log; raises `FoldError` if the code cannot take it."""
    decode = aggregate.decode_event.get(event.type)
    if decode is None:
        raise FoldError(f"the code knows no event {event.type}: deploy the code that wrote it")
    try:
        fact = decode(event.data)
    except Exception as error:
        raise FoldError(
            f"{event.type} {event.id} does not fit its class: {error}; events stay as they were written: "
            "rename no field, and give a new one a default"
        ) from error
    try:
        return aggregate.round_trip(aggregate.decider.evolve(state, fact))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the aggregate's own code: anything may come
        raise FoldError(f"evolve raised {raised(error)} (on {event.type} {event.id})") from error
