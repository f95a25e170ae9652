"""Limits for connections: idle connections, and clients that do not receive their response, are closed.

uvicorn counts connections and responds with 503 above its limit. So clients that only connect, which needs no token,
could block all others. Here the limit applies to requests (`guard.RequestLimit`). A connection without a request has a
timeout, and at the connection limit a new connection closes the longest idle one.
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from cqrs_cli.following.gateway.gateway import GatewayLimits


class IdleConnections:
    """The connections without a request, longest idle first."""

    def __init__(self, limits: GatewayLimits) -> None:
        self.limits = limits
        self._idle: dict[GatewayProtocol, None] = {}

    def add(self, connection: "GatewayProtocol") -> None:
        """Mark a connection as idle from now on."""
        self._idle[connection] = None

    def remove(self, connection: "GatewayProtocol") -> None:
        """Mark a connection as no longer idle: it has a request, or is closed."""
        self._idle.pop(connection, None)

    def make_room(self, connected: int) -> None:
        """Close the longest idle connection if more than the limit are connected."""
        if connected > self.limits.connections and self._idle:
            oldest = next(iter(self._idle))
            self.remove(oldest)
            oldest.transport.abort()


class GatewayProtocol(H11Protocol):
    """A connection. The limits are in its class (`protocol_of`), because uvicorn creates the connections."""

    idle: ClassVar[IdleConnections]
    _expiry: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Wait for a request, and make room for this connection."""
        super().connection_made(transport)
        self._rest()
        self.idle.make_room(len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        super().connection_lost(exc)
        self._end_rest()
        self._end_stall()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes. Only a complete request head ends the idle time; single bytes do not."""
        super().data_received(data)
        if self._is_asked():
            self._end_rest()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has arrived already."""
        super().on_response_complete()
        if not self._is_asked():
            self._rest()

    def pause_writing(self) -> None:
        """Start the stall timer: the write buffer is full, because the client receives too slowly."""
        super().pause_writing()
        self._await_reader()

    def resume_writing(self) -> None:
        """Stop the stall timer: the client has received most of the write buffer."""
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
        """Close an idle connection; its client gets some time to receive the remaining response."""
        self.transport.close()
        self._expiry = self.loop.call_later(self.idle.limits.stalled, self.transport.abort)

    def _await_reader(self) -> None:
        """Abort the connection if the client receives nothing for a time, because unsent bytes occupy memory."""
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
    """Return the connection class for one server."""
    return type("GatewayProtocol", (GatewayProtocol,), {"idle": IdleConnections(limits)})
