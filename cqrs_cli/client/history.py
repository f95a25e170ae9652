"""The history of one aggregate: folds its events, without Spark, to the state at a version or a time."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from cqrs_cli.client.aggregate_logs import EventRange
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import State
from cqrs_cli.core.fold import FoldError, VersionedState, fold_event
from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.core.messages.record import Record
from cqrs_cli.core.messages.timestamps import rfc3339
from cqrs_cli.errors import UsageError
from cqrs_cli.kafka.fault import record_fault
from cqrs_cli.settings.moments import parse_moment

#: Returns True if a state of the aggregate is at or before the requested version or time.
StateFilter = Callable[[VersionedState], bool]


#: Number of digits of the largest version, a signed number of 64 bits. A text is checked against it before `int`, which
#: raises an error for thousands of digits.
_MAX_VERSION_DIGITS = 19


class AggregateHistory(NamedTuple):
    """An aggregate at one version, and its events so far. Without events: version 0, the initial state, no time."""

    version: int
    state: State
    time: str | None
    events: list[EventEnvelope]


def history_document(
    aggregate: str, aggregate_id: str, history: AggregateHistory, *, events: bool
) -> dict[str, Any]:
    """Return an aggregate as a JSON document. `events`: True to include its events."""
    document = {
        "aggregate": aggregate,
        "id": aggregate_id,
        "version": history.version,
        "state": history.state,
        "time": history.time,
    }
    if events:
        document["history"] = [_event_document(event) for event in history.events]
    return document


def _event_document(event: EventEnvelope) -> dict[str, Any]:
    return {
        "version": event.aggregateversion,
        "time": event.time,
        "type": event.type,
        "data": event.data,
        "id": event.id,
        "causationid": event.causationid,
        "correlationid": event.correlationid,
        **event.propagated(),
    }


def parse_at(text: str | None) -> StateFilter:
    """Return the filter of `--at`: `7` admits versions up to 7, a time the versions up to that time, None all versions.

    Raises `UsageError` for other texts.
    """
    if text is None:
        return lambda state: True
    if text.isascii() and text.isdigit():
        if len(text) > _MAX_VERSION_DIGITS:
            raise UsageError(
                f"--at: no aggregate has a version of {len(text)} digits", "give a smaller version"
            )
        version = int(text)
        return lambda state: state.version <= version
    try:
        latest_time = rfc3339(parse_moment(text))
    except ValueError as error:
        raise UsageError(f"--at: {error}", "give a version or a time") from None
    return lambda state: state.time <= latest_time


def fold_history(
    aggregate: Aggregate,
    records: Iterable[tuple[EventRange, Record]],
    is_included: StateFilter,
    *,
    events: bool = True,
) -> AggregateHistory:
    """Fold the events of one aggregate; return the last state for which `is_included` is True, and its events.

    `events`: False to return no events. Raises `ContradictionError` with the position of an invalid event.
    """
    latest_state: VersionedState | None = None
    selected_state: VersionedState | None = None
    event_list: list[EventEnvelope] = []
    for event_range, record in records:
        try:
            event = read_event(record.value)
            next_state = fold_event(aggregate, latest_state, event)
        except (FoldError, ValueError) as error:
            raise record_fault(
                aggregate.name, "events", event_range.topic, event_range.partition, record.offset, error
            ) from error
        if next_state is not latest_state:
            latest_state = next_state
            if events:
                event_list.append(event)
            if is_included(latest_state):
                selected_state = latest_state
    if selected_state is None:
        return AggregateHistory(0, aggregate.decider.initial, None, [])
    return AggregateHistory(
        selected_state.version,
        selected_state.state,
        selected_state.time,
        event_list[: selected_state.version],
    )
