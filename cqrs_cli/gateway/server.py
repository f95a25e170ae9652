"""Serving: the followers, the sender and the HTTP server, until a signal or a follower ends it."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from pathlib import Path

import uvicorn

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import ConfigurationError
from cqrs_cli.gateway.app import make_app
from cqrs_cli.gateway.follower import Follower
from cqrs_cli.gateway.gateway import Gateway
from cqrs_cli.kafka.admin.topics import Admin, check_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.kafka.topics.topics import Topics

#: Seconds that requests have to end when the gateway stops; streams are cut then.
_STOPPING = 5


def open_followers(
    connection: Connection,
    aggregates: Mapping[str, Aggregate],
    prefix: str,
    partitioner: Partitioner,
    state_dir: Path,
    note: Callable[[str], None],
    stack: ExitStack,
) -> dict[str, Follower]:
    """A follower for each aggregate, closed with the stack. Raises `ConfigurationError` for topics that are missing."""
    found = {}
    with Admin(connection) as admin:
        for name, aggregate in aggregates.items():
            described = check_topics(admin, Topics(name, prefix))
            folder = state_dir / "gateway" / f"{prefix}{name}"
            follower = Follower(connection, described, aggregate, partitioner, folder, note)
            stack.callback(follower.close)
            found[name] = follower
    return found


class GatewayServer(uvicorn.Server):
    """A server that ends when a follower has: whoever restarts services knows what to do."""

    def __init__(self, config: uvicorn.Config, gateway: Gateway) -> None:
        super().__init__(config)
        self.gateway = gateway

    async def startup(self, sockets: object = None) -> None:
        """Connect the followers with the event loop, then listen."""
        loop = asyncio.get_running_loop()
        for name, follower in self.gateway.followers.items():
            follower.arrived = self._waker(loop, name, follower)
            follower.start()
        await super().startup()

    def _waker(self, loop: asyncio.AbstractEventLoop, name: str, follower: Follower) -> Callable[[], None]:
        def woken() -> None:
            self.gateway.pulses[name].beat()
            if follower.error is not None:
                self.should_exit = True

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(woken)

        return wake

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.servers[0].sockets[0].getsockname()[1])


def make_server(
    gateway: Gateway, host: str, port: int, hosts: Collection[str], token: str | None
) -> GatewayServer:
    """A server of the gateway at an address. `hosts`: names by which it is reached; none: any."""
    config = uvicorn.Config(
        make_app(gateway, hosts, token),
        host,
        port,
        log_config=None,
        access_log=False,
        limit_concurrency=gateway.limits.connections,
        timeout_graceful_shutdown=_STOPPING,
        server_header=False,
        lifespan="off",
    )
    return GatewayServer(config, gateway)


def run_server(server: GatewayServer, listening: Callable[[int], None]) -> None:
    """Serve until SIGINT or SIGTERM, or until a follower has ended: then raises its error.

    `listening` is called with the port. Raises `ConfigurationError` if it is taken.
    """
    asyncio.run(_serve(server, listening))
    for follower in server.gateway.followers.values():
        if follower.error is not None:
            raise follower.error


async def _serve(server: GatewayServer, listening: Callable[[int], None]) -> None:
    serving = asyncio.ensure_future(server.serve())
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            listening(server.port)
        await serving
    except SystemExit:
        where = f"{server.config.host} port {server.config.port}"
        raise ConfigurationError(
            f"{where} cannot be used", "choose another: --port; 0 takes a free one"
        ) from None
