"""The shared objects of the request handlers: followers, the command sender, and limits."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol, Self

from starlette.requests import Request
from starlette.responses import Response

from cqrs_cli.client.background_sender import BackgroundSender
from cqrs_cli.following.gateway.follower import AggregateFollower
from cqrs_cli.kafka.readers import SHORT_LOG_TIMEOUT
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.settings.durations import parse_duration

#: Headers of a response to a request that may be retried.
RETRY_SOON = {"Retry-After": "1"}


class Problem(Exception):
    """An error response as in RFC 9457. `extra_members`: additional members of the problem document."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        extra_members: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail or title)
        self.status, self.title, self.detail = status, title, detail
        self.extra_members, self.headers = dict(extra_members or {}), dict(headers or {})


class EventNotifier:
    """Wakes all waiters of one event loop whenever new events have arrived."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def notify(self) -> None:
        """Wake all current waiters."""
        self._next.set()
        self._next = asyncio.Event()

    def subscribe(self) -> Callable[[float], Awaitable[bool]]:
        """Return a function that waits for the next `notify` after this call, and returns False after a timeout (s)."""
        next_event = self._next

        async def wait(seconds: float) -> bool:
            try:
                await asyncio.wait_for(next_event.wait(), seconds)
            except TimeoutError:
                return False
            return True

        return wait


class Budget:
    """A memory quota in bytes that all requests share.

    While no bytes are reserved, one request may exceed the quota. So every request can be answered when it is alone.
    """

    def __init__(self, limit: int, purpose: str) -> None:
        """`purpose`: the kind of data that uses the quota, for the error text, such as "commands"."""
        self._limit, self._purpose = limit, purpose
        self.reserved = 0

    def reservation(self) -> "Reservation":
        """Return a reservation of 0 bytes for one request. Use it as a context manager, or close it."""
        return Reservation(self)

    def reserve(self, size: int) -> None:
        """Reserve bytes; raises `Problem` 503 if the bytes reserved by other requests leave no room."""
        if self.reserved and self.reserved + size > self._limit:
            raise Problem(
                503,
                "too many bytes at a time",
                f"retry when other {self._purpose} are complete",
                headers=RETRY_SOON,
            )
        self.reserved += size


class Reservation:
    """The bytes of a quota that one request has reserved."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._size = budget, 0

    def reserve(self, size: int) -> None:
        """Reserve more bytes; raises `Problem` 503."""
        self._budget.reserve(size)
        self._size += size

    def close(self) -> None:
        """Release all reserved bytes. Idempotent."""
        self._budget.reserved -= self._size
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Limits for each request, and for all requests together."""

    body_bytes: int = 1_048_576  # bytes of one request body
    total_body_bytes: int = 64 << 20  # bytes of all request bodies, until their commands have an outcome
    body_timeout: float = 10.0  # seconds until a body is complete
    head_timeout: float = 10.0  # seconds from connect, or from the last response, to a complete request head
    #: Seconds after which a client that reads nothing of its response is disconnected.
    stall_timeout: float = 30.0
    max_wait: float = 60.0  # seconds that a request may wait for an outcome or a version
    page_size: int = 1_000  # aggregates in one response
    max_reads: int = 4  # concurrent topic reads; further requests wait
    history_bytes: int = 32 << 20  # bytes of all events in one history
    # Bytes of all large responses, until their clients have received them.
    total_response_bytes: int = 64 << 20
    max_requests: int = 2_000  # concurrent requests, including streams; further requests get 503
    max_streams: int = 1_000  # concurrent streams; further streams get 503
    #: Concurrent streams that hold events read from the topic; further streams wait.
    max_lagging_streams: int = 200
    max_connections: int = (
        2_500  # including idle connections; a further connection closes the longest idle one
    )
    #: Seconds to wait for the log to reach the client's position, before a 410.
    short_log_timeout: float = SHORT_LOG_TIMEOUT

    def with_connections(self, allowed: int) -> "GatewayLimits":
        """Return these limits with at most `allowed` connections, but at least 20. Requests get four fifths of them."""
        max_connections = max(20, min(self.max_connections, allowed))
        max_requests = min(self.max_requests, max_connections * 4 // 5)
        return replace(
            self,
            max_connections=max_connections,
            max_requests=max_requests,
            max_streams=min(self.max_streams, max_requests // 2),
        )


@dataclass(slots=True)
class Gateway:
    """The state of a running gateway. `sender` is None for a read-only gateway."""

    followers: Mapping[str, AggregateFollower]
    sender: BackgroundSender | None
    limits: GatewayLimits = field(default_factory=GatewayLimits)
    decision_settings: DecisionSettings | None = None  # the settings of the owners, for dry runs
    notifiers: dict[str, EventNotifier] = field(default_factory=dict)
    read_slots: asyncio.Semaphore = field(init=False)
    topic_stream_slots: asyncio.Semaphore = field(init=False)
    body_budget: Budget = field(init=False)
    response_budget: Budget = field(init=False)
    requests: int = 0  # number of requests in progress
    streams: int = 0  # number of open streams
    is_stopping: bool = False  # True: streams end, so that their clients connect to another gateway or later

    def __post_init__(self) -> None:
        self.read_slots = asyncio.Semaphore(self.limits.max_reads)
        self.topic_stream_slots = asyncio.Semaphore(self.limits.max_lagging_streams)
        self.body_budget = Budget(self.limits.total_body_bytes, "commands")
        self.response_budget = Budget(self.limits.total_response_bytes, "responses")
        self.notifiers = {name: EventNotifier() for name in self.followers}

    def follower(self, aggregate: str) -> AggregateFollower:
        """Return the follower of an aggregate; raises `Problem` 404 if it is unknown, 503 if the follower has ended."""
        follower = self.followers.get(aggregate)
        if follower is None:
            raise Problem(404, "no such aggregate", f"known: {', '.join(sorted(self.followers))}")
        if follower.error is not None:
            raise Problem(503, "the states of this aggregate are no longer updated", str(follower.error))
        return follower

    def is_dry_run(self, request: Request) -> bool:
        """Return the parameter `dry_run` of a request; raises `Problem` 400."""
        value = request.query_params.get("dry_run", "false")
        if value not in ("true", "false"):
            raise Problem(400, "invalid dry_run", f"true or false, found {value[:40]!r}")
        return value == "true"

    def parse_timeout(self, text: str | None, default: float) -> float:
        """Parse a request's timeout, `5s` or a number of seconds, and cap it at the limit; raises `Problem` 400."""
        if text is None:
            return default
        try:
            timeout = timedelta(seconds=int(text)) if text.isdecimal() else parse_duration(text)
        except (ValueError, OverflowError) as error:
            raise Problem(400, "not a duration", str(error)) from None
        return min(timeout.total_seconds(), self.limits.max_wait)


class ConsoleHandler(Protocol):
    """Handles the paths below `/api/`. The console implements it, so the gateway does not import the console."""

    @property
    def api_paths(self) -> dict[str, Any]:
        """The paths for the OpenAPI document."""

    async def handle(self, gateway: Gateway, request: Request, path: list[str]) -> Response:
        """Respond to a request for `/api/PATH`; raises `Problem`."""
