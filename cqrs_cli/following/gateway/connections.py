"""Limits for connections: closes idle connections, and connections whose clients do not receive their responses.

uvicorn limits the number of connections, and responds with 503 above its limit. Clients that only connect need no
token, so they could block all other clients. Here the limit applies to requests (`guard.RequestLimit`). A connection
without a request has a timeout. At the connection limit, a new connection closes the connection that was idle longest.
"""

import asyncio
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from cqrs_cli.following.gateway.gateway import GatewayLimits


class IdleConnections:
    """The connections without a request. The connection that was idle longest comes first."""

    def __init__(self, limits: GatewayLimits) -> None:
        self.limits = limits
        self._idle: dict[GatewayProtocol, None] = {}

    def mark_idle(self, connection: "GatewayProtocol") -> None:
        """Mark a connection as idle from now on."""
        self._idle[connection] = None

    def mark_busy(self, connection: "GatewayProtocol") -> None:
        """Mark a connection as no longer idle: it has a request, or is closed."""
        self._idle.pop(connection, None)

    def make_room(self, connected: int) -> None:
        """Close the longest idle connection if `connected`, the number of connections, is above the limit."""
        if connected > self.limits.max_connections and self._idle:
            oldest = next(iter(self._idle))
            self.mark_busy(oldest)
            oldest.transport.abort()


class GatewayProtocol(H11Protocol):
    """A connection. The limits are in its class (`make_protocol_class`), because uvicorn creates the connections."""

    idle: ClassVar[IdleConnections]
    _idle_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's
        """Wait for a request, and make room for this connection."""
        super().connection_made(transport)
        self._start_idle()
        self.idle.make_room(len(self.connections))

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        super().connection_lost(exc)
        self._stop_idle()
        self._stop_stall_timer()

    def data_received(self, data: bytes) -> None:
        """Handle received bytes. Only a complete request head ends the idle time; single bytes do not."""
        super().data_received(data)
        if self._has_request():
            self._stop_idle()

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it has arrived already."""
        super().on_response_complete()
        if not self._has_request():
            self._start_idle()

    def pause_writing(self) -> None:
        """Start the stall timer: the write buffer is full, because the client receives too slowly."""
        super().pause_writing()
        self._start_stall_timer()

    def resume_writing(self) -> None:
        """Stop the stall timer: the client has received most of the write buffer."""
        super().resume_writing()
        self._stop_stall_timer()

    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _start_idle(self) -> None:
        self._stop_idle()
        self.idle.mark_idle(self)
        self._idle_timer = self.loop.call_later(self.idle.limits.head_timeout, self._close_idle)

    def _stop_idle(self) -> None:
        self.idle.mark_busy(self)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None

    def _close_idle(self) -> None:
        """Close an idle connection; its client gets some time to receive the remaining response."""
        self.transport.close()
        self._idle_timer = self.loop.call_later(self.idle.limits.stall_timeout, self.transport.abort)

    def _start_stall_timer(self) -> None:
        """Abort the connection if the client receives nothing for a time, because unsent bytes occupy memory."""
        unsent = self.transport.get_write_buffer_size()

        def check_progress() -> None:
            if self.transport.get_write_buffer_size() < unsent:
                self._start_stall_timer()
            else:
                self.transport.abort()

        self._stop_stall_timer()
        self._stall_timer = self.loop.call_later(self.idle.limits.stall_timeout, check_progress)

    def _stop_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None


def make_protocol_class(limits: GatewayLimits) -> type[GatewayProtocol]:
    """Return the connection class for one server."""
    return type("GatewayProtocol", (GatewayProtocol,), {"idle": IdleConnections(limits)})
