"""The gateway's socket, and its shutdown."""

import asyncio
import logging
import re
import signal
import socket
import threading
import uuid
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, cast

import pytest
import uvicorn

from cqrs_cli import registry
from cqrs_cli.following.gateway.gateway import Gateway
from cqrs_cli.following.gateway.server import GatewayServer, listen, open_followers
from cqrs_cli.kafka.admin.topics import Admin, ensure_topics
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import TopicPlan, Topics
from tests.following.gateway.conftest import open_stream, running_gateway
from tests.support import ROOT
from tests.support.brokers import broker
from tests.support.harness import TopicHarness
from tests.support.topic_loss import recreate_topics
from tests.support.waiting import eventually


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_bodies_wait_for_no_acknowledgement(host: str) -> None:
    """Head and body are two writes. Nagle's algorithm would hold the second until the first is acknowledged."""
    if host == "::1" and not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    with (
        listen(host, 0) as listener,
        closing(socket.create_connection((host, listener.getsockname()[1]))),
        listener.accept()[0] as connection,
    ):
        assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.default_int_handler])
def test_ignored_interrupts_stay_ignored(handler: Any) -> None:
    """A shell ignores SIGINT for background jobs, because Ctrl-C is meant for another program then."""
    old_handler = signal.signal(signal.SIGINT, handler)
    try:
        with GatewayServer(uvicorn.Config("no:app"), cast(Gateway, None)).capture_signals():
            assert (signal.getsignal(signal.SIGINT) is signal.SIG_IGN) == (handler is signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGINT, old_handler)


def test_cancelled_requests_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Ctrl-C ends requests that wait for an outcome. Any other exception is logged with its traceback."""
    log = logging.getLogger("uvicorn.error")
    for error in (asyncio.CancelledError("timeout graceful shutdown exceeded"), RuntimeError("a bug")):
        log.error("Exception in ASGI application", exc_info=error)
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]


@pytest.mark.kafka
def test_recreated_topic_ends_the_gateway(connection: Connection, prefix: str, tmp_path: Path) -> None:
    harness = TopicHarness(connection, prefix, tmp_path, "bank_account")
    with running_gateway(connection, harness.topics, tmp_path / "gateway", read_only=True) as gateway:
        recreate_topics(harness, "events")
        eventually(lambda: gateway.server.should_exit)
        error = gateway.follower.error
    assert error is not None and error.exit_code == 5
    assert error.message == f"{harness.topics.events} was recreated while the gateway read it"
    with running_gateway(connection, harness.topics, tmp_path / "gateway", read_only=True) as restarted:
        assert restarted.get("/readyz").status == 200


@pytest.mark.kafka
def test_shutdown_ends_the_streams(connection: Connection, prefix: str, tmp_path: Path) -> None:
    harness = TopicHarness(connection, prefix, tmp_path, "bank_account")
    with (
        running_gateway(connection, harness.topics, tmp_path / "gateway", read_only=True) as gateway,
        open_stream(gateway, "/bank_account") as stream,
    ):
        gateway.server.should_exit = True
        assert stream.read() == b"\n"


@pytest.mark.kafka
@pytest.mark.slow
def test_an_outage_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gateway replaces its client several times; each client logs that it cannot connect."""
    with broker(tmp_path / "broker") as own_broker:
        harness = TopicHarness(own_broker.connection, "", tmp_path, "bank_account")
        with running_gateway(own_broker.connection, harness.topics, tmp_path / "gateway", read_only=True):
            own_broker.kill()
            eventually(lambda: len(set(re.findall(r"rdkafka#consumer-\d+", caplog.text))) >= 4)
    assert capsys.readouterr().out.count("still trying") == 1


@pytest.mark.kafka
def test_followers_stop_concurrently(connection: Connection, tmp_path: Path) -> None:
    """One after the other, thirty aggregates would take longer to stop than a service manager waits."""
    prefix = f"t{uuid.uuid4().hex[:8]}."
    names = ["bank_account", "counter"]
    with Admin(connection) as admin:
        for name in names:
            ensure_topics(admin, Topics(name, prefix), TopicPlan(partitions=1))
    aggregates = {name: registry.load(name, "aggregates", ROOT) for name in names}
    slow = threading.Event()

    def wait() -> None:
        slow.wait(30)

    with ExitStack() as stack:
        followers = open_followers(connection, aggregates, prefix, "murmur2", tmp_path, print, stack)
        has_ended = threading.Event()
        followers["counter"].on_arrival = wait
        followers["bank_account"].on_arrival = has_ended.set
        for follower in followers.values():
            follower.start()
        closing_all = threading.Thread(target=stack.pop_all().close)
        closing_all.start()
        try:
            eventually(has_ended.is_set)
        finally:
            slow.set()
            closing_all.join()
