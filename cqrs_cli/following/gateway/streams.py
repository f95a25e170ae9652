"""Event streams (server-sent events) of one aggregate or of all aggregates of a type.

The id of each event lists the next offset of every partition, such as `0:12,1:7`. A client that reconnects with this id
(`Last-Event-ID`) neither misses an event nor gets an event twice.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cqrs_cli.errors import ContradictionError, CqrsError
from cqrs_cli.following.gateway.event_buffer import StreamEvent, first_page, to_stream_event
from cqrs_cli.following.gateway.follower import AggregateFollower
from cqrs_cli.following.gateway.gateway import RETRY_SOON, Gateway, Problem
from cqrs_cli.following.gateway.guard import may_see_personal
from cqrs_cli.following.gateway.responses import query_parameters
from cqrs_cli.following.gateway.topic_reads import run_read
from cqrs_cli.kafka import readers
from cqrs_cli.ownership.complete_events import check_starts

#: Line endings in a stream. U+2028 and similar characters are no line endings, so JSON may contain them.
_LINE_END = re.compile(r"\r\n|\n|\r")

#: Maximum number of events that a stream reads at once.
_PAGE_EVENTS = 200

#: After each page, a stream sleeps for the duration of its work × the number of other streams × this factor. So most of
#: the processor time remains for other requests.
_SLEEP_FACTOR = 3.0

#: Seconds without an event until a stream sends a comment, which shows that the connection is alive.
_KEEPALIVE_INTERVAL = 15.0


async def handle_stream(
    gateway: Gateway, request: Request, aggregate: str, aggregate_id: str | None
) -> StreamingResponse:
    """Respond with the events after `Last-Event-ID`, from the beginning (`?from=beginning`), or from now on."""
    follower, parameters = gateway.follower(aggregate), query_parameters(request, "type", "from")
    if gateway.streams >= gateway.limits.max_streams:
        raise Problem(503, "too many concurrent streams", headers=RETRY_SOON)
    event_types = {f"{aggregate}.{name}" for name in parameters.getlist("type")}
    if unknown := sorted(event_types - set(follower.aggregate.decode_event)):
        raise Problem(400, "invalid type", f"{aggregate} has no event type {unknown[0].partition('.')[2]}")
    gateway.streams += 1
    try:
        positions = await _start_positions(gateway, request, follower)
    except BaseException:
        gateway.streams -= 1
        raise
    decrypts = may_see_personal(request.scope) and follower.aggregate.has_personal_fields
    return EventStream(gateway, _events(gateway, follower, positions, aggregate_id, event_types, decrypts))


class EventStream(StreamingResponse):
    """A streaming response, which counts as an open stream until it ends."""

    def __init__(self, gateway: Gateway, events: AsyncIterator[str]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._gateway = gateway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._gateway.streams -= 1


async def _events(
    gateway: Gateway,
    follower: AggregateFollower,
    positions: dict[int, int],
    aggregate_id: str | None,
    event_types: set[str],
    decrypts: bool,
) -> AsyncIterator[str]:
    yield ": \n\n"  # the client sees at once that the stream is open
    try:
        while follower.error is None and not gateway.is_stopping:
            wait_for_events, idle = gateway.notifiers[follower.aggregate.name].subscribe(), True
            for partition, end in follower.event_buffer.ends.items():
                position = positions.setdefault(partition, 0)
                if position < end and (position or follower.key_space.current.is_ready(partition, positions)):
                    idle = False
                    async with AsyncExitStack() as held_slot:
                        events, next_position = await _next_events(
                            gateway, follower, partition, position, end, held_slot, decrypts
                        )
                        started_at, messages = time.monotonic(), []
                        for event in events:
                            positions[partition] = event.offset + 1
                            if aggregate_id in (None, event.subject) and (
                                not event_types or event.type in event_types
                            ):
                                messages.append(format_event(event, positions))
                        positions[partition] = next_position
                        work_seconds = time.monotonic() - started_at
                        if messages:
                            yield "".join(messages)
                    await asyncio.sleep(_SLEEP_FACTOR * work_seconds * (gateway.streams - 1))
            if idle and not await wait_for_events(_KEEPALIVE_INTERVAL):
                yield ": \n\n"
    except CqrsError as error:  # the stream ends, and its client reconnects
        yield f": {error.message}\n\n"


async def _next_events(
    gateway: Gateway,
    follower: AggregateFollower,
    partition: int,
    position: int,
    end: int,
    held_slot: AsyncExitStack,
    decrypts: bool,
) -> tuple[list[StreamEvent], int]:
    """Return the next events of a partition and the offset after them, from the event buffer or, for older events, from
    the topic.

    With `decrypts` the events always come from the topic, because the buffer has no personal values. Events from the
    topic need memory for each stream. To limit this memory, a stream waits for a slot, and has it until `held_slot` is
    closed.
    """
    events = None if decrypts else follower.event_buffer.events_from(partition, position, _PAGE_EVENTS)
    if events is None:
        await held_slot.enter_async_context(gateway.topic_stream_slots)
        async with gateway.read_slots:
            events = await asyncio.to_thread(_read_events, follower, partition, position, end, decrypts)
    return events, events[-1].offset + 1 if events else end


def _read_events(
    follower: AggregateFollower, partition: int, start: int, end: int, decrypts: bool
) -> list[StreamEvent]:
    codec = follower.decrypting_codec if decrypts else follower.redacting_codec
    batches = replace(follower.log(partition), codec=codec).events(start, end, _PAGE_EVENTS)
    nullified_aggregate = None if decrypts else follower.aggregate
    return first_page(to_stream_event(partition, record, nullified_aggregate) for record in next(batches, []))


async def _start_positions(gateway: Gateway, request: Request, follower: AggregateFollower) -> dict[int, int]:
    """Return the start offset that the client asks for in each partition; raises `Problem` 400, 410, 503."""
    ends = follower.event_buffer.ends
    position_id = request.headers.get("last-event-id") or request.query_params.get("from")
    if position_id is None:
        return ends
    positions = {} if position_id == "beginning" else _parse_positions(position_id)
    if positions is None or positions.keys() - ends.keys():
        raise Problem(400, "invalid from", "neither the id of an event of this stream nor `beginning`")
    bounds = await _bounds(gateway, request, follower)
    if _partition_ending_before(positions, bounds) is not None:
        await asyncio.sleep(gateway.limits.short_log_timeout)
        bounds = await _bounds(gateway, request, follower)
        if (partition := _partition_ending_before(positions, bounds)) is not None:
            raise Problem(
                410,
                "the log ends before this position",
                f"partition {partition} ends at {bounds[partition][1]}, before {positions[partition]}: the topic was "
                "truncated, or deleted and recreated. Your events may be from the old log; start again with "
                "from=beginning",
            )
    starts = {partition: start for partition, (start, _) in bounds.items()}
    try:
        await asyncio.to_thread(check_starts, follower.connection, follower.topics, starts, positions)
    except ContradictionError as error:
        raise Problem(410, "events were deleted", error.message) from error
    return {partition: max(start, positions.get(partition, start)) for partition, start in starts.items()}


def _partition_ending_before(
    positions: Mapping[int, int], bounds: Mapping[int, tuple[int, int]]
) -> int | None:
    """Return a partition that ends before the client's position; None if there is no such partition."""
    return next(
        (partition for partition, position in positions.items() if position > bounds[partition][1]), None
    )


async def _bounds(
    gateway: Gateway, request: Request, follower: AggregateFollower
) -> dict[int, tuple[int, int]]:
    """Return (start, end) of each partition; raises `Problem` 503."""
    topic, partitions = follower.topics.events, range(follower.partition_count)
    try:
        return await run_read(
            gateway, request, lambda check_cancelled: readers.bounds(follower.connection, topic, partitions)
        )
    except CqrsError as error:
        raise Problem(503, "Kafka does not respond", error.message) from error


def _parse_positions(text: str) -> dict[int, int] | None:
    """Parse the positions in an event id, such as `0:12,1:7`; None for invalid text."""
    positions = {}
    for item in text.split(","):
        partition, _, position = item.partition(":")
        if not all(
            number.isascii() and number.isdigit() and len(number) < 19 for number in (partition, position)
        ):
            return None
        positions[int(partition)] = int(position)
    return positions


def format_event(event: StreamEvent, positions: Mapping[int, int]) -> str:
    """Format an event as in WHATWG HTML, 9.2: event type, id, and data, which may have several lines."""
    event_id = ",".join(f"{partition}:{position}" for partition, position in sorted(positions.items()))
    data = "".join(f"data: {line}\n" for line in _LINE_END.split(event.text))
    return f"event: {event.type.rpartition('.')[2]}\nid: {event_id}\n{data}\n"
