"""The things that requests work with: the followers, the way to the commands topics, and the limits."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Self

from cqrs_cli.client.background import BackgroundSender
from cqrs_cli.following.gateway.follower import AggregateFollower
from cqrs_cli.kafka.readers import BELIEVED_AFTER
from cqrs_cli.settings.durations import parse_duration

#: The headers of an answer to a request that may come again.
RETRY_SOON = {"Retry-After": "1"}


class Problem(Exception):
    """An answer that is an error: RFC 9457. `more` are members of the document besides."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str = "",
        more: Mapping[str, object] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail or title)
        self.status, self.title, self.detail = status, title, detail
        self.more, self.headers = dict(more or {}), dict(headers or {})


class Pulse:
    """Wakes everybody who waits, each time something has arrived. For one event loop."""

    def __init__(self) -> None:
        self._next = asyncio.Event()

    def beat(self) -> None:
        """Wake those who wait now."""
        self._next.set()
        self._next = asyncio.Event()

    def waiting(self) -> Callable[[float], Awaitable[bool]]:
        """A function that waits so many seconds for the next beat from now on, and tells if it came."""
        upcoming = self._next

        async def wait(seconds: float) -> bool:
            try:
                await asyncio.wait_for(upcoming.wait(), seconds)
            except TimeoutError:
                return False
            return True

        return wait


class Budget:
    """Bytes that many requests hold at a time. One request alone may have more, so that each can be answered."""

    def __init__(self, most: int, holders: str) -> None:
        """`holders`: those who hold the bytes, for the refusal."""
        self._most, self._holders = most, holders
        self.held = 0

    def account(self) -> "Account":
        """The bytes of one request. Use as a context manager, or close it."""
        return Account(self)

    def take(self, size: int) -> None:
        """Hold more bytes; raises `Problem` 503 if others hold too many."""
        if self.held and self.held + size > self._most:
            raise Problem(503, "too much at a time", f"wait for other {self._holders}", headers=RETRY_SOON)
        self.held += size


class Account:
    """The bytes that one request holds of a budget."""

    def __init__(self, budget: Budget) -> None:
        self._budget, self._size = budget, 0

    def add(self, size: int) -> None:
        """Hold more; raises `Problem` 503."""
        self._budget.take(size)
        self._size += size

    def close(self) -> None:
        """Give all of it back. Idempotent."""
        self._budget.held -= self._size
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """The most that one request or all of them may take."""

    body: int = 1_048_576  # bytes
    bodies: int = 64 << 20  # bytes of all bodies, until their commands have an outcome
    body_within: float = 10.0  # seconds for a body to come
    head_within: float = 10.0  # seconds from a connection, or the last answer, to the head of a request
    stalled: float = 30.0  # seconds that a client may take nothing of its answer
    wait: float = 60.0  # seconds that a request may wait for an outcome or a version
    page: int = 1_000  # aggregates in one answer
    readings: int = 4  # requests that read a topic at a time; others wait for their turn
    history: int = 32 << 20  # bytes of the events in a history
    answers: int = 64 << 20  # bytes of all large answers, until their clients have taken them
    requests: int = 2_000  # at a time, streams too; more are answered with 503
    streams: int = 1_000  # at a time; more are answered with 503
    lagging: int = 200  # streams that hold events of the topic at a time; others wait for their turn
    connections: int = 2_500  # with those that have no request; a further one takes the place of the idlest
    believed: float = BELIEVED_AFTER  # seconds that a log must look too short for a client's place

    def with_connections(self, allowed: int) -> "GatewayLimits":
        """The same with no more connections than that: a fifth of them has room besides the requests."""
        connections = max(20, min(self.connections, allowed))
        requests = min(self.requests, connections * 4 // 5)
        return replace(
            self, connections=connections, requests=requests, streams=min(self.streams, requests // 2)
        )


@dataclass(slots=True)
class Gateway:
    """A running gateway. `sender` is None if it is read-only."""

    followers: Mapping[str, AggregateFollower]
    sender: BackgroundSender | None
    limits: GatewayLimits = field(default_factory=GatewayLimits)
    pulses: dict[str, Pulse] = field(default_factory=dict)
    readings: asyncio.Semaphore = field(init=False)
    lagging: asyncio.Semaphore = field(init=False)
    bodies: Budget = field(init=False)
    answers: Budget = field(init=False)
    requests: int = 0  # in work
    streams: int = 0  # that are open

    def __post_init__(self) -> None:
        self.readings = asyncio.Semaphore(self.limits.readings)
        self.lagging = asyncio.Semaphore(self.limits.lagging)
        self.bodies = Budget(self.limits.bodies, "commands")
        self.answers = Budget(self.limits.answers, "answers")
        self.pulses = {name: Pulse() for name in self.followers}

    def follower(self, aggregate: str) -> AggregateFollower:
        """The follower of an aggregate; raises `Problem` 404 without one, 503 if it has ended."""
        found = self.followers.get(aggregate)
        if found is None:
            raise Problem(404, "no such aggregate", f"there are: {', '.join(sorted(self.followers))}")
        if found.error is not None:
            raise Problem(503, "not followed any more", str(found.error))
        return found

    def patience(self, text: str | None, default: float) -> float:
        """The seconds that a request will wait, of `5s` or a bare number of seconds; raises `Problem` 400."""
        if text is None:
            return default
        try:
            asked = timedelta(seconds=int(text)) if text.isdecimal() else parse_duration(text)
        except (ValueError, OverflowError) as error:
            raise Problem(400, "not a duration", str(error)) from None
        return min(asked.total_seconds(), self.limits.wait)
