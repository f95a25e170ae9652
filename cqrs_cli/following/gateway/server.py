"""Runs the followers and the HTTP server until a signal arrives or a follower ends."""

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
from cqrs_cli.following.gateway.connections import make_protocol_class
from cqrs_cli.following.gateway.follower import AggregateFollower
from cqrs_cli.following.gateway.gateway import ConsoleHandler, Gateway, GatewayLimits
from cqrs_cli.following.gateway.token import Tokens
from cqrs_cli.kafka.admin.topics import Admin, check_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.state.errors import translate_errors
from cqrs_cli.storage.private import PRIVATE_FOLDER
from cqrs_cli.system.limits import raise_descriptor_limit
from cqrs_cli.system.lock import try_lock

#: Timeout in seconds for open requests when the gateway stops; streams are closed then.
_SHUTDOWN_TIMEOUT = 5

#: The length of the kernel's queue of connections that the gateway has not accepted yet. The gateway may accept all
#: queued connections at once, so it reserves a file descriptor for each.
_BACKLOG = 512


def open_followers(
    connection: Connection,
    aggregates: Mapping[str, Aggregate],
    prefix: str,
    partitioner: Partitioner,
    state_dir: Path,
    report: Callable[[str], None],
    stack: ExitStack,
) -> dict[str, AggregateFollower]:
    """Open a follower for each aggregate; the stack closes the followers.

    Raises `ConfigurationError` for missing topics, or if another gateway uses the same folder.
    """
    followers = {}
    with Admin(connection) as admin:
        for name, aggregate in aggregates.items():
            topics = check_topics(admin, Topics(name, prefix))
            folder = state_dir / "gateway" / f"{prefix}{name}"
            stack.enter_context(_exclusive_folder(folder))
            follower = AggregateFollower(connection, topics, aggregate, partitioner, folder, report)
            stack.callback(follower.close)
            followers[name] = follower
    for follower in followers.values():
        stack.callback(follower.stop)  # all threads are signalled before one is joined
    return followers


@contextmanager
def _exclusive_folder(folder: Path) -> Iterator[None]:
    """Lock a folder against other gateways."""
    with translate_errors(folder):
        folder.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        lock_file = folder.with_name(f"{folder.name}.lock").open("a")
    with lock_file:
        if not try_lock(lock_file.fileno()):
            raise ConfigurationError(
                f"another gateway uses the folder {folder}",
                "give each gateway its own folder: cqrs serve --state-dir DIR",
            )
        yield


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 selects a free port. Raises `ConfigurationError` for an unusable address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigurationError(
            f"{host} port {port} cannot be used: {error.strerror}",
            "choose another port: --port; 0 selects a free port",
        ) from error
    # Connections inherit the option. asyncio sets it only for sockets that asyncio creates itself. Without the option a
    # response body waits up to 40 ms until the client acknowledges the head.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


class GatewayServer(uvicorn.Server):
    """An HTTP server that exits when a follower ends, so that a service manager can restart it."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self.gateway = gateway

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Like uvicorn's method, but an ignored SIGINT stays ignored: a shell ignores SIGINT for background jobs."""
        ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        with super().capture_signals():
            if ignored and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, signal.SIG_IGN)
            yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Connect the followers to the event loop and start them, then listen."""
        loop = asyncio.get_running_loop()
        for name, follower in self.gateway.followers.items():
            follower.on_arrival = self._wake_callback(loop, name, follower)
            follower.start()
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, because they would never end by themselves. Then wait for the other requests."""
        self.gateway.is_stopping = True
        for notifier in self.gateway.notifiers.values():
            notifier.notify()
        await super().shutdown(sockets)

    def _wake_callback(
        self, loop: asyncio.AbstractEventLoop, name: str, follower: AggregateFollower
    ) -> Callable[[], None]:
        def on_wake() -> None:
            self.gateway.notifiers[name].notify()
            if follower.error is not None:
                self.should_exit = True

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(on_wake)

        return wake


#: Numbers of file descriptors besides the connections: for each partition (its shard), for each aggregate (its
#: consumer), and for the gateway (the command sender and concurrent topic reads).
_FILES_PER_PARTITION, _FILES_PER_AGGREGATE, _FILES_OF_GATEWAY = 4, 40, 250


def limits_for(followers: Collection[AggregateFollower]) -> GatewayLimits:
    """Increase the soft limit of file descriptors if possible, and return the limits that fit the available
    descriptors.
    """
    limits = GatewayLimits()
    used_descriptors = (
        _FILES_OF_GATEWAY
        + _BACKLOG
        + sum(
            _FILES_PER_AGGREGATE + _FILES_PER_PARTITION * follower.partition_count for follower in followers
        )
    )
    return limits.with_connections(
        raise_descriptor_limit(used_descriptors + limits.max_connections) - used_descriptors
    )


def _is_error(record: logging.LogRecord) -> bool:
    """Return False for a request that was cancelled at shutdown, which is no error of the gateway."""
    return record.exc_info is None or record.exc_info[0] is not asyncio.CancelledError


logging.getLogger("uvicorn.error").addFilter(_is_error)


def make_server(
    gateway: Gateway, hosts: Collection[str], tokens: Tokens, console: ConsoleHandler | None = None
) -> GatewayServer:
    """Return a server for the gateway. `hosts`: the host names of the gateway; an empty collection allows any name."""
    config = uvicorn.Config(
        make_app(gateway, hosts, tokens, console),
        log_config=None,
        access_log=False,
        http=make_protocol_class(gateway.limits),
        ws="none",
        backlog=_BACKLOG,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT,
        server_header=False,
        lifespan="off",
    )
    return GatewayServer(config, gateway)


def run_server(server: GatewayServer, listener: socket.socket) -> None:
    """Serve until SIGINT or SIGTERM, or until a follower ends; raises the follower's error."""
    server.run(sockets=[listener])
    for follower in server.gateway.followers.values():
        if follower.error is not None:
            raise follower.error
