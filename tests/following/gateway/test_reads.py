"""States, histories and lists over HTTP."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from cqrs_cli.client.aggregate_logs import find_ranges, read_records
from cqrs_cli.following.gateway.gateway import GatewayLimits
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.topics import Topics
from tests.following.gateway.conftest import GatewayClient, running_gateway
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka


def test_state_has_its_version(gateway: GatewayClient) -> None:
    name = gateway.open_account()
    response = gateway.get(f"/bank_account/{name}")
    assert (response.status, response.headers["etag"]) == (200, '"2"')
    assert (response.body["id"], response.body["version"], response.body["state"]["balance"]) == (
        name,
        2,
        100,
    )
    assert gateway.get(f"/bank_account/{name}", If_None_Match='"2"').status == 304
    assert gateway.get(f"/bank_account/{name}", If_None_Match='"1"').status == 200


def test_own_write_is_waited_for(gateway: GatewayClient) -> None:
    name = gateway.open_account()
    for version in range(3, 13):
        deposited = gateway.post(name, "Deposit", {"amount": 1}).body["version"]
        response = gateway.get(f"/bank_account/{name}?at_least={deposited}&wait=20s")
        assert (deposited, response.body["version"]) == (version, version)
    late = gateway.get(f"/bank_account/{name}?at_least=13&wait=1ms")
    assert (late.status, late.body["version"]) == (504, 12)


def test_past_states_are_returned(gateway: GatewayClient) -> None:
    name = gateway.open_account()
    first = gateway.get(f"/bank_account/{name}?version=1")
    assert (first.status, first.body["version"], first.body["state"]["balance"]) == (200, 1, 0)
    history = gateway.get(f"/bank_account/{name}/history").body
    assert [event["type"] for event in history["history"]] == [
        "bank_account.Opened",
        "bank_account.Deposited",
    ]
    assert history["version"] == 2 and history["state"]["balance"] == 100
    an_hour_ago = (datetime.now(UTC) - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    early = gateway.get(f"/bank_account/{name}?at={an_hour_ago}")
    assert (early.status, early.body["title"]) == (404, "the aggregate did not exist then")


def test_missing_versions_are_named(gateway: GatewayClient) -> None:
    name = gateway.open_account()
    late = gateway.get(f"/bank_account/{name}?version=3")
    assert (late.status, late.body["title"]) == (404, "no such version")
    assert late.body["detail"] == f"bank_account {name} is at version 2, not 3"
    titles = [
        gateway.get(f"/bank_account/{path}").body["title"] for path in (f"{name}?version=0", "none?version=3")
    ]
    assert titles == ["the aggregate did not exist then", "no such aggregate"]


@pytest.mark.parametrize(
    ("parameters", "detail"),
    [
        ("?limit=-1", "limit must be a whole number from 1 to 1000, found '-1'"),
        ("?limit=1001", "limit must be a whole number from 1 to 1000, found '1001'"),
        ("/x?version=-1", "version must be a whole number from 0 to 999999999999999999, found '-1'"),
    ],
)
def test_invalid_numbers_are_explained(gateway: GatewayClient, parameters: str, detail: str) -> None:
    assert gateway.get(f"/bank_account{parameters}").body["detail"] == detail


def test_pages_are_in_order(gateway: GatewayClient) -> None:
    names = sorted(gateway.open_account() for _ in range(5))
    ids: list[str] = []
    path = "/bank_account?limit=2&prefix=acc-"
    last_id = ""
    while True:
        page = gateway.get(f"{path}&after={last_id}").body
        ids += [item["id"] for item in page["aggregates"]]
        if page["next"] is None:
            break
        last_id = page["next"]
    assert ids == sorted(set(ids)) and set(names) <= set(ids)
    assert gateway.get(f"/bank_account?prefix={names[0]}").body["aggregates"] == [
        {"id": names[0], "version": 2}
    ]


def test_any_id_can_be_read(gateway: GatewayClient) -> None:
    for name in ("a/b", "ü ?&#", "..", "history", "a\nb"):
        assert gateway.post(name, "Open", {"owner": "ann"}).status in (200, 422)
    response = gateway.get("/bank_account/a%2Fb?at_least=1&wait=20s")
    assert response.body["id"] == "a/b"
    assert gateway.get("/bank_account/a%0Ab?at_least=1&wait=20s").body["id"] == "a\nb"
    assert gateway.get("/bank_account/history?at_least=1&wait=20s").body["id"] == "history"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/bank_account/none", 404),
        ("/bank_account/none/history", 404),
        ("/order/1", 404),
        ("/bank_account/x?version=x", 400),
        ("/bank_account/x?version=1&at=2h", 400),
        ("/bank_account/x?at=yesterday", 400),
        (f"/bank_account/x?at={'7' * 5000}", 400),
        (f"/bank_account/x?version={'7' * 5000}", 400),
        ("/bank_account/x?at_least=1&wait=soon", 400),
        ("/bank_account?limit=0", 400),
        ("/bank_account?limit=100000", 400),
        ("/bank_account/x/y/z", 404),
        ("/bank_account/%FF", 400),
        ("/bank_account/x?versoin=1", 400),
        ("/bank_account/x/history?at=2h", 400),
        ("/bank_account?limti=1", 400),
    ],
)
def test_invalid_requests_are_problems(gateway: GatewayClient, path: str, status: int) -> None:
    response = gateway.get(path)
    assert (response.status, response.headers["content-type"]) == (status, "application/problem+json")
    assert response.body["status"] == status and response.body["title"]


def test_restart_continues_at_its_position(connection: Connection, accounts: Topics, tmp_path: Path) -> None:
    with running_gateway(connection, accounts, tmp_path) as first:
        name = first.open_account()
        positions = {partition: replica.position for partition, replica in first.follower.replicas.items()}
    with running_gateway(connection, accounts, tmp_path) as second:
        assert second.get(f"/bank_account/{name}").body["version"] == 2
        # The events in the shard are not read again: the buffer begins after them.
        assert second.follower.event_buffer.events_from(0, positions[0] - 1, 1) is None or positions[0] == 0


def test_long_histories_are_refused(connection: Connection, accounts: Topics, tmp_path: Path) -> None:
    """A past state is folded without keeping events, so it is not refused."""
    with running_gateway(connection, accounts, tmp_path, GatewayLimits(history_bytes=500)) as gateway:
        name = gateway.open_account()
        response = gateway.get(f"/bank_account/{name}/history")
        assert (response.status, response.body["title"]) == (413, "the history is too long")
        assert gateway.get(f"/bank_account/{name}?version=2").body["state"]["balance"] == 100
        eventually(lambda: gateway.gateway.response_budget.reserved == 0)  # once the response is sent


def test_reading_can_be_cancelled(gateway: GatewayClient) -> None:
    name, follower = gateway.open_account(), gateway.follower

    def raise_cancelled() -> NoReturn:
        raise EOFError

    key = name.encode()
    ranges = find_ranges(follower.connection, follower.topics, key, follower.partitioner)
    with pytest.raises(EOFError):
        list(read_records(follower.connection, key, ranges, raise_if_cancelled=raise_cancelled))


def test_other_methods_are_problems(gateway: GatewayClient) -> None:
    response = gateway.request("DELETE", "/bank_account/x")
    assert (response.status, response.headers["content-type"]) == (405, "application/problem+json")
    assert "GET" in response.headers["allow"]
