"""The HTTP endpoint of a run: its responses to Prometheus, and to service managers and load balancers."""

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from cqrs_cli.cli.options import parse_metrics_address
from cqrs_cli.deciding.plan import Partition
from cqrs_cli.deciding.report import OwnerReport
from cqrs_cli.errors import ConfigurationError, UsageError
from cqrs_cli.runs.endpoint import ALIVE_TIMEOUT, FRESH_TIMEOUT, Endpoint
from cqrs_cli.runs.metrics import Metrics
from cqrs_cli.runs.snapshot import Snapshot
from tests.support.listening_sockets import listen_on_all_interfaces, listening_sockets, reachable_sockets

PARTITION = Partition("counter", 0)


class Clock:
    def __init__(self) -> None:
        self.now = time.monotonic()

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def endpoint(clock: Clock) -> Iterator[Endpoint[Snapshot]]:
    endpoint = Endpoint(Metrics(), "127.0.0.1", 0, clock)
    yield endpoint
    endpoint.close()


def get(endpoint: Endpoint[Snapshot], path: str, method: str = "GET") -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{endpoint.port}{path}", method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def get_json(endpoint: Endpoint[Snapshot], path: str) -> tuple[int, Any]:
    status, text = get(endpoint, path)
    return status, json.loads(text)


def snapshot(time: float, step: str, *unowned: Partition) -> Snapshot:
    reports = {PARTITION: OwnerReport(*PARTITION, 0, 0, 1, step)}
    return Snapshot(time, lags={PARTITION: 7}, reports=reports, unowned=unowned)


def test_public_listener_is_detected() -> None:
    with listen_on_all_interfaces() as server:
        assert server.getsockname()[1] in reachable_sockets(os.getpid())
    assert server.fileno() == -1


@pytest.mark.covers("no-foreign-code")
def test_metrics_listen_on_loopback_only() -> None:
    ports_before = listening_sockets(os.getpid())
    address = parse_metrics_address("0")
    assert address is not None
    endpoint = Endpoint(Metrics(), *address)
    try:
        new_ports = {
            port: address
            for port, address in listening_sockets(os.getpid()).items()
            if port not in ports_before
        }
        assert {port: str(address) for port, address in new_ports.items()} == {endpoint.port: "127.0.0.1"}
        with pytest.raises(ConfigurationError, match=f"port {endpoint.port} cannot be used"):
            Endpoint(Metrics(), "127.0.0.1", endpoint.port)
    finally:
        endpoint.close()


def test_metrics_are_served_as_text(endpoint: Endpoint[Snapshot], clock: Clock) -> None:
    endpoint.update(snapshot(clock(), "decide"))
    status, text = get(endpoint, "/metrics?name=x")
    assert status == 200 and 'cqrs_lag_commands{aggregate="counter",partition="0"} 7.0' in text
    assert get(endpoint, "/metrics", "HEAD") == (200, "")
    assert get(endpoint, "/")[0] == 404


def test_ready_while_every_owner_decides(endpoint: Endpoint[Snapshot], clock: Clock) -> None:
    assert get_json(endpoint, "/readyz") == (503, {"ready": False, "why": "the run has not begun"})
    endpoint.update(snapshot(clock(), "warm", PARTITION))
    assert get_json(endpoint, "/readyz") == (503, {"ready": False, "waiting": {"counter:0": "warm"}})
    endpoint.update(snapshot(clock(), "decide"))
    assert get_json(endpoint, "/readyz") == (200, {"ready": True, "waiting": {}})


def test_standby_is_ready_for_rolling_updates(endpoint: Endpoint[Snapshot], clock: Clock) -> None:
    """Without `?standby`, a standby is not ready, because it decides no commands."""
    endpoint.update(snapshot(clock(), "warm", PARTITION))
    assert get(endpoint, "/readyz?standby")[0] == 503
    endpoint.update(snapshot(clock(), "standby", PARTITION))
    assert get_json(endpoint, "/readyz?standby") == (200, {"ready": True, "standby": True})
    assert get(endpoint, "/readyz")[0] == 503
    endpoint.update(snapshot(clock(), "decide"))
    assert get(endpoint, "/readyz?standby")[0] == 200


def test_old_snapshot_is_not_ready(endpoint: Endpoint[Snapshot], clock: Clock) -> None:
    endpoint.update(snapshot(clock(), "decide"))
    clock.now += FRESH_TIMEOUT + 1
    endpoint.record_heartbeat()
    assert get_json(endpoint, "/readyz") == (503, {"ready": False, "why": "no answer from Kafka"})
    assert get(endpoint, "/healthz")[0] == 200


def test_silent_driver_is_not_alive(endpoint: Endpoint[Snapshot], clock: Clock) -> None:
    assert get_json(endpoint, "/healthz") == (200, {"alive": True, "silent_seconds": 0.0})
    clock.now += ALIVE_TIMEOUT + 1
    assert get(endpoint, "/healthz")[0] == 503
    endpoint.record_heartbeat()
    assert get(endpoint, "/healthz")[0] == 200


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9500", ("127.0.0.1", 9500)),
        (":9500", ("127.0.0.1", 9500)),
        ("0.0.0.0:9500", ("0.0.0.0", 9500)),
        ("[::1]:9500", ("::1", 9500)),
    ],
)
def test_address_may_name_a_host(text: str, address: tuple[str, int]) -> None:
    assert parse_metrics_address(text) == address


@pytest.mark.parametrize("text", ["", "host", "host:", "host:x", ":70000", "::1:9500"])
def test_wrong_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--metrics-address"):
        parse_metrics_address(text)
