"""A gateway that serves accounts, and an owner that decides for them."""

import http.client
import json
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from cqrs_cli import registry
from cqrs_cli.client.background_sender import BackgroundSender
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.following.gateway.follower import AggregateFollower
from cqrs_cli.following.gateway.gateway import ConsoleHandler, Gateway, GatewayLimits
from cqrs_cli.following.gateway.server import GatewayServer, listen, make_server, open_followers
from cqrs_cli.following.gateway.token import NO_TOKENS, Tokens
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.decision_rules import DecisionSettings
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from tests.support import ROOT
from tests.support.simple_owner import SimpleOwner
from tests.support.waiting import eventually

#: The settings of the owners.
_DECISIONS = DecisionSettings("murmur2", 86_400_000, 10)


class Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class GatewayClient:
    """A gateway as a client sees it."""

    def __init__(self, server: GatewayServer, topics: Topics, port: int) -> None:
        self.server, self.topics, self.port = server, topics, port
        self.gateway = server.gateway
        self.token = ""  # of requests without another token

    @property
    def follower(self) -> AggregateFollower:
        return self.gateway.followers["bank_account"]

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers of a request, with the token. Underscores in names mean hyphens."""
        token = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        return token | {name.replace("_", "-"): value for name, value in headers.items()}

    def request(self, method: str, path: str, body: object = None, **headers: str) -> Response:
        """Send a request and return the response."""
        request_headers = self.headers(headers)
        if body is not None and "Content-Type" not in request_headers:
            request_headers["Content-Type"] = "application/json"
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        connection = self.connect()
        try:
            connection.request(method, path, data, request_headers)
            response = connection.getresponse()
            raw = response.read()
            response_headers = {name.lower(): value for name, value in response.getheaders()}
            return Response(
                response.status,
                response_headers,
                json.loads(raw) if "json" in response_headers.get("content-type", "") else raw,
            )
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Response:
        return self.request("GET", path, **headers)

    def post(self, name: str, command: str, body: object = None, **headers: str) -> Response:
        path = f"/bank_account/{quote(name, safe='')}/{command}"
        return self.request("POST", path, {} if body is None else body, **headers)

    def open_account(self) -> str:
        """Open an account, deposit 100, wait until the gateway has version 2, and return its id."""
        name = f"acc-{uuid.uuid4().hex[:8]}"
        assert self.post(name, "Open", {"owner": "ann"}).status == 200
        assert self.post(name, "Deposit", {"amount": 100}).status == 200
        assert self.get(f"/bank_account/{name}?at_least=2&wait=20s").status == 200
        return name


@contextmanager
def running_gateway(
    connection: Connection,
    topics: Topics,
    state_dir: Path,
    limits: GatewayLimits = GatewayLimits(),  # noqa: B008  (frozen)
    *,
    read_only: bool = False,
    tokens: Tokens = NO_TOKENS,
    aggregate: Aggregate | None = None,
    others: Iterable[Aggregate] = (),
    console: ConsoleHandler | None = None,
    port: int = 0,
) -> Iterator[GatewayClient]:
    """Run a gateway while the block lasts. It serves accounts, or `aggregate`, and `others`."""
    served_aggregate = aggregate or registry.load("bank_account", "aggregates", ROOT)
    aggregates = {served.name: served for served in (served_aggregate, *others)}
    with ExitStack() as stack:
        followers = open_followers(connection, aggregates, topics.prefix, "murmur2", state_dir, print, stack)
        sender = None if read_only else BackgroundSender(connection, "murmur2")
        if sender is not None:
            stack.callback(sender.close)
        server = make_server(Gateway(followers, sender, limits, _DECISIONS), {"127.0.0.1"}, tokens, console)
        listening = stack.enter_context(listen("127.0.0.1", port))
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(setattr, server, "should_exit", True)
        eventually(lambda: server.started and all(follower.is_caught_up for follower in followers.values()))
        yield GatewayClient(server, topics, listening.getsockname()[1])


@pytest.fixture(scope="module")
def accounts(connection: Connection) -> Iterator[Topics]:
    """Topics with two partitions, and an owner that decides for them."""
    topics = Topics("bank_account", f"t{uuid.uuid4().hex[:8]}.")
    with Admin(connection) as admin:
        ensure_topics(admin, topics, TopicPlan(partitions=2))
    with SimpleOwner(
        connection, topics, registry.load("bank_account", "aggregates", ROOT)
    ).decide_in_background():
        yield topics


@pytest.fixture(scope="module")
def gateway(
    connection: Connection, accounts: Topics, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayClient]:
    with running_gateway(connection, accounts, tmp_path_factory.mktemp("state")) as client:
        yield client


@contextmanager
def open_stream(gateway: GatewayClient, path: str, **headers: str) -> Iterator[HTTPResponse]:
    connection = gateway.connect()
    try:
        sent_headers = {"Accept": "text/event-stream", **gateway.headers(headers)}
        connection.request("GET", path, headers=sent_headers)
        with connection.getresponse() as response:
            assert (response.status, response.readline()) == (200, b": \n")
            yield response
    finally:
        connection.close()
