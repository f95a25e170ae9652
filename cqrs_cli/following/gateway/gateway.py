"""The things that requests work with: the followers, the way to the commands topics, and the limits."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from cqrs_cli.client.background import BackgroundSender
from cqrs_cli.following.gateway.follower import AggregateFollower
from cqrs_cli.kafka.readers import BELIEVED_AFTER
from cqrs_cli.settings.durations import parse_duration


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


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """The most that one request or all of them may take."""

    body: int = 1_048_576  # bytes
    body_within: float = 10.0  # seconds for a body to come
    wait: float = 60.0  # seconds that a request may wait for an outcome or a version
    page: int = 1_000  # aggregates in one answer
    readings: int = 4  # requests that read a topic at a time; others wait for their turn
    connections: int = 2_000  # more are answered with 503
    believed: float = BELIEVED_AFTER  # seconds that a log must look too short for a client's place


@dataclass(slots=True)
class Gateway:
    """A running gateway. `sender` is None if it is read-only."""

    followers: Mapping[str, AggregateFollower]
    sender: BackgroundSender | None
    limits: GatewayLimits = field(default_factory=GatewayLimits)
    pulses: dict[str, Pulse] = field(default_factory=dict)
    readings: asyncio.Semaphore = field(init=False)
    streams: int = 0  # that are open

    def __post_init__(self) -> None:
        self.readings = asyncio.Semaphore(self.limits.readings)
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
