"""Serving: the followers, the sender and the HTTP server, until a signal or a follower ends it."""

import asyncio
import logging
import signal
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvicorn

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.following.gateway.app import make_app
from cqrs_cli.following.gateway.connections import protocol_of
from cqrs_cli.following.gateway.follower import AggregateFollower
from cqrs_cli.following.gateway.gateway import Gateway, GatewayLimits
from cqrs_cli.following.gateway.token import GatewayTokens
from cqrs_cli.kafka.admin.topics import Admin, check_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.state.errors import translated
from cqrs_cli.storage.private import PRIVATE_FOLDER
from cqrs_cli.system.limits import raise_descriptors
from cqrs_cli.system.lock import try_lock

#: Seconds that requests have to end when the gateway stops; streams are cut then.
_STOPPING = 5

#: Connections that the kernel accepts before the gateway does; all of them may be taken at once.
_BACKLOG = 512


def open_followers(
    connection: Connection,
    aggregates: Mapping[str, Aggregate],
    prefix: str,
    partitioner: Partitioner,
    state_dir: Path,
    note: Callable[[str], None],
    stack: ExitStack,
) -> dict[str, AggregateFollower]:
    """A follower for each aggregate, closed with the stack. Raises `ConfigurationError` for topics that are missing, or
    if another gateway follows an aggregate in the same folder.
    """
    found = {}
    with Admin(connection) as admin:
        for name, aggregate in aggregates.items():
            described = check_topics(admin, Topics(name, prefix))
            folder = state_dir / "gateway" / f"{prefix}{name}"
            stack.enter_context(_alone(folder))
            follower = AggregateFollower(connection, described, aggregate, partitioner, folder, note)
            stack.callback(follower.close)
            found[name] = follower
    for follower in found.values():
        stack.callback(follower.stop)  # all are told before one is waited for
    return found


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other gateways out of a folder."""
    with translated(folder):
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        holding = folder.with_name(f"{folder.name}.lock").open("a")
    with holding:
        if not try_lock(holding.fileno()):
            raise ConfigurationError(
                f"another gateway follows the events into {folder}", "give each one a state_dir of its own"
            )
        yield


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 takes a free one. Raises `ConfigurationError` if that cannot be."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigurationError(
            f"{host} port {port} cannot be used: {error.strerror}",
            "choose another: --port; 0 takes a free one",
        ) from error
    # Connections inherit it. asyncio sets it for sockets that it makes itself only: without it an answer's body waits
    # up to 40 ms for the client to acknowledge the head.
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


class GatewayServer(uvicorn.Server):
    """A server that ends when a follower has: whoever restarts services knows what to do."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self.gateway = gateway

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn does, but SIGINT that is ignored stays so: a shell has it so for what runs in the background."""
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        with super().capture_signals():
            if ignored and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Connect the followers with the event loop, then listen."""
        loop = asyncio.get_running_loop()
        for name, follower in self.gateway.followers.items():
            follower.arrived = self._waker(loop, name, follower)
            follower.start()
        await super().startup(sockets)

    def _waker(
        self, loop: asyncio.AbstractEventLoop, name: str, follower: AggregateFollower
    ) -> Callable[[], None]:
        def woken() -> None:
            self.gateway.pulses[name].beat()
            if follower.error is not None:
                self.should_exit = True

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(woken)

        return wake


#: Descriptors that a gateway takes besides its connections: for each partition its shard's, for each aggregate its
#: reader's, and for the sender, histories and streams that are read.
_OF_PARTITION, _OF_AGGREGATE, _OF_GATEWAY = 4, 40, 250


def fitting_limits(followers: Collection[AggregateFollower]) -> GatewayLimits:
    """The limits, with no more connections than this process may have descriptors. Raises its limit where it can."""
    limits = GatewayLimits()
    own = _OF_GATEWAY + _BACKLOG + sum(_OF_AGGREGATE + _OF_PARTITION * one.partitions for one in followers)
    return limits.with_connections(raise_descriptors(own + limits.connections) - own)


def _is_news(record: logging.LogRecord) -> bool:
    """False for a request that was cut off at the end: its client sees that, and nothing is wrong here."""
    return record.exc_info is None or record.exc_info[0] is not asyncio.CancelledError


logging.getLogger("uvicorn.error").addFilter(_is_news)


def make_server(gateway: Gateway, hosts: Collection[str], tokens: GatewayTokens) -> GatewayServer:
    """A server of the gateway. `hosts`: names by which it is reached; none: any."""
    config = uvicorn.Config(
        make_app(gateway, hosts, tokens),
        log_config=None,
        access_log=False,
        http=protocol_of(gateway.limits),
        ws="none",
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_STOPPING,
        server_header=False,
        lifespan="off",
    )
    return GatewayServer(config, gateway)


def run_server(server: GatewayServer, listening: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, or until a follower has ended: then raises its error."""
    server.run(sockets=[listening])
    for follower in server.gateway.followers.values():
        if follower.error is not None:
            raise follower.error
