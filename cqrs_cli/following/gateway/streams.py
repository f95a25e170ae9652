"""Event streams (server-sent events) of one aggregate or of all aggregates of a type.

The id of each event lists the next offset of every partition, such as `0:12,1:7`. A client that reconnects with this id
(`Last-Event-ID`) neither misses an event nor gets an event twice.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cqrs_cli.errors import CqrsError
from cqrs_cli.following.gateway.answers import known
from cqrs_cli.following.gateway.feed import FeedEvent, page
from cqrs_cli.following.gateway.follower import AggregateFollower, feed_event
from cqrs_cli.following.gateway.gateway import RETRY_SOON, Gateway, Problem
from cqrs_cli.following.gateway.guard import sees_personal
from cqrs_cli.following.gateway.turns import in_turn
from cqrs_cli.kafka import readers

#: Line endings in a stream. U+2028 and similar characters are no line endings, so JSON may contain them.
_LINE_END = re.compile(r"\r\n|\n|\r")

#: Events that a stream takes at once.
_PAGE = 200

#: After each page a stream sleeps for this factor times the duration of its work times the number of other streams. So
#: most of the processor remains for other requests.
_SHARE = 3.0

#: Seconds without an event until a comment shows that the stream is alive.
_QUIET = 15.0


async def stream_events(
    gateway: Gateway, request: Request, aggregate: str, aggregate_id: str | None
) -> StreamingResponse:
    """Respond with the events after `Last-Event-ID`, from the beginning (`?from=beginning`), or from now on."""
    follower, asked = gateway.follower(aggregate), known(request, "type", "from")
    if gateway.streams >= gateway.limits.streams:
        raise Problem(503, "too many streams at a time", headers=RETRY_SOON)
    kinds = {f"{aggregate}.{name}" for name in asked.getlist("type")}
    if unknown := sorted(kinds - set(follower.aggregate.decode_event)):
        raise Problem(400, "type", f"{aggregate} has no event {unknown[0].partition('.')[2]}")
    gateway.streams += 1
    try:
        places = await _places(gateway, request, follower)
    except BaseException:
        gateway.streams -= 1
        raise
    opens = sees_personal(request.scope) and follower.aggregate.has_personal_fields
    return EventStream(gateway, _events(gateway, follower, places, aggregate_id, kinds, opens))


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
    places: dict[int, int],
    aggregate_id: str | None,
    kinds: set[str],
    opens: bool,
) -> AsyncIterator[str]:
    yield ": \n\n"  # the client sees at once that the stream is open
    try:
        while follower.error is None:
            arrived, idle = gateway.pulses[follower.aggregate.name].waiting(), True
            for number, end in follower.feed.ends.items():
                place = places.setdefault(number, 0)
                if place < end and (place or follower.lineage.may_begin(number, places)):
                    idle = False
                    async with AsyncExitStack() as held:
                        found, behind = await _page(gateway, follower, number, place, end, held, opens)
                        began, said = time.monotonic(), []
                        for event in found:
                            places[number] = event.offset + 1
                            if aggregate_id in (None, event.subject) and (not kinds or event.type in kinds):
                                said.append(server_sent(event, places))
                        places[number] = behind
                        spent = time.monotonic() - began
                        if said:
                            yield "".join(said)
                    await asyncio.sleep(_SHARE * spent * (gateway.streams - 1))
            if idle and not await arrived(_QUIET):
                yield ": \n\n"
    except CqrsError as error:  # the stream ends, and its client reconnects
        yield f": {error.message}\n\n"


async def _page(
    gateway: Gateway,
    follower: AggregateFollower,
    partition: int,
    place: int,
    end: int,
    held: AsyncExitStack,
    opens: bool,
) -> tuple[list[FeedEvent], int]:
    """Return the next events of a partition and the offset after them, from memory or (older events) from the topic.

    With `opens` the events always come from the topic, because memory holds redacted values. Events read from the topic
    belong to one stream only. So few streams may hold such events at a time, each until `held` is closed.
    """
    found = None if opens else follower.feed.after(partition, place, _PAGE)
    if found is None:
        await held.enter_async_context(gateway.lagging)
        async with gateway.readings:
            found = await asyncio.to_thread(_read, follower, partition, place, end, opens)
    return found, found[-1].offset + 1 if found else end


def _read(follower: AggregateFollower, partition: int, start: int, end: int, opens: bool) -> list[FeedEvent]:
    view = follower.opener if opens else follower.masker
    stretch = view.batches(partition, follower.log(partition).events(start, end, _PAGE))
    return page(feed_event(partition, record) for record in next(stretch, []))


async def _places(gateway: Gateway, request: Request, follower: AggregateFollower) -> dict[int, int]:
    """Return the start offset that the client asks for in each partition; raises `Problem` 400, 410, 503."""
    ends = follower.feed.ends
    asked = request.headers.get("last-event-id") or request.query_params.get("from")
    if asked is None:
        return ends
    places = {} if asked == "beginning" else _parse(asked)
    if places is None or places.keys() - ends.keys():
        raise Problem(400, "from", "not the id of one of these events, nor `beginning`")
    bounds = await _bounds(gateway, request, follower)
    if _beyond(places, bounds) is not None:
        await asyncio.sleep(gateway.limits.believed)
        bounds = await _bounds(gateway, request, follower)
        if (number := _beyond(places, bounds)) is not None:
            raise Problem(
                410,
                "no such place any more",
                f"partition {number} ends at {bounds[number][1]}, before {places[number]}: the log was cut, or deleted"
                " and made again. What you have may be of another log; begin with from=beginning",
            )
    return {number: max(start, places.get(number, start)) for number, (start, _) in bounds.items()}


def _beyond(places: Mapping[int, int], bounds: Mapping[int, tuple[int, int]]) -> int | None:
    """Return a partition that ends before the client's position; None if there is no such partition."""
    return next((number for number, place in places.items() if place > bounds[number][1]), None)


async def _bounds(
    gateway: Gateway, request: Request, follower: AggregateFollower
) -> dict[int, tuple[int, int]]:
    """Return (start, end) of each partition; raises `Problem` 503."""
    topic, numbers = follower.topics.events, range(follower.partitions)
    try:
        return await in_turn(
            gateway, request, lambda going_on: readers.bounds(follower.connection, topic, numbers)
        )
    except CqrsError as error:
        raise Problem(503, "Kafka does not answer", error.message) from error


def _parse(text: str) -> dict[int, int] | None:
    """Parse the positions in an event id, such as `0:12,1:7`; None for invalid text."""
    found = {}
    for part in text.split(","):
        number, _, place = part.partition(":")
        if not all(one.isascii() and one.isdigit() and len(one) < 19 for one in (number, place)):
            return None
        found[int(number)] = int(place)
    return found


def server_sent(event: FeedEvent, places: Mapping[int, int]) -> str:
    """Format an event as in WHATWG HTML, 9.2: event type, id, and data, which may have several lines."""
    at = ",".join(f"{number}:{place}" for number, place in sorted(places.items()))
    data = "".join(f"data: {line}\n" for line in _LINE_END.split(event.text))
    return f"event: {event.type.rpartition('.')[2]}\nid: {at}\n{data}\n"
