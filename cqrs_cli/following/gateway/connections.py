"""Connections: none stays that asks for nothing, or takes no answer.

uvicorn counts connections, and gives each 503 once there are too many. So clients that only connect, for which nobody
needs a token, would shut out all others. Here requests are counted (`guard.Counted`). A connection without a request
has a limited time, and a new one takes the place of the one that has been idle longest.
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from cqrs_cli.following.gateway.gateway import GatewayLimits


class IdleConnections:
    """The connections that have no request, the one that has been idle longest first."""

    def __init__(self, limits: GatewayLimits) -> None:
        self.limits = limits
        self._idle: dict[GatewayProtocol, None] = {}

    def add(self, connection: "GatewayProtocol") -> None:
        """It has no request from now on."""
        self._idle[connection] = None

    def remove(self, connection: "GatewayProtocol") -> None:
        """It has a request, or is gone."""
        self._idle.pop(connection, None)

    def make_room(self, connected: int) -> None:
        """Cut the oldest one off if more are connected than may be."""
        if connected > self.limits.connections and self._idle:
            oldest = next(iter(self._idle))
            self.remove(oldest)
            oldest.transport.abort()


class GatewayProtocol(H11Protocol):
    """A connection. Its class has the limits: `protocol_of` makes it, as uvicorn makes the connections."""

    idle: ClassVar[IdleConnections]
    _expiry: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Wait for a request, and make room for this one."""
        super().connection_made(transport)
        self._rest()
        self.idle.make_room(len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        super().connection_lost(exc)
        self._end_rest()
        self._end_stall()

    def data_received(self, data: bytes) -> None:
        """Take in what came. Only the whole head of a request counts: one byte now and then keeps no connection."""
        super().data_received(data)
        if self._is_asked():
            self._end_rest()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has come already."""
        super().on_response_complete()
        if not self._is_asked():
            self._rest()

    def pause_writing(self) -> None:
        """The client takes no more for the moment."""
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        """The client has taken what there was."""
        super().resume_writing()
        self._end_stall()

    def _is_asked(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _rest(self) -> None:
        self._end_rest()
        self.idle.add(self)
        self._expiry = self.loop.call_later(self.idle.limits.head_within, self._expire)

    def _end_rest(self) -> None:
        self.idle.remove(self)
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None

    def _expire(self) -> None:
        """Close it; the rest of an answer has some time to be taken."""
        self.transport.close()
        self._expiry = self.loop.call_later(self.idle.limits.stalled, self.transport.abort)

    def _await_reader(self) -> None:
        """Cut it off if the client takes nothing at all for a time: what waits for it takes memory."""
        waiting = self.transport.get_write_buffer_size()

        def look() -> None:
            if self.transport.get_write_buffer_size() < waiting:
                self._await_reader()
            else:
                self.transport.abort()

        self._end_stall()
        self._stall = self.loop.call_later(self.idle.limits.stalled, look)

    def _end_stall(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None


def protocol_of(limits: GatewayLimits) -> type[GatewayProtocol]:
    """The class of the connections of one server."""
    return type("GatewayProtocol", (GatewayProtocol,), {"idle": IdleConnections(limits)})
