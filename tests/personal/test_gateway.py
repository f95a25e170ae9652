"""The gateway shows personal values only to users who have the right, and stores none."""

import json
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from cqrs_cli.following.gateway import streams
from cqrs_cli.following.gateway.token import GatewayTokens
from tests.following.gateway.conftest import GatewayClient, open_stream, running_gateway
from tests.personal.people import ANNS_DATA, FIRST_KEY, MASKED_DATA, SECOND_KEY, People
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

#: The headers of a request that may see personal values.
RIGHT = {"Authorization": "Bearer the-right-to-see"}


@pytest.fixture
def gateway(people: People, tmp_path: Path) -> Iterator[GatewayClient]:
    people.register_with_new_key("ann", FIRST_KEY)
    served = people.harness.aggregate
    folder, tokens = tmp_path / "gateway", GatewayTokens(personal="the-right-to-see")
    with running_gateway(
        people.connection, people.topics, folder, read_only=True, tokens=tokens, aggregate=served
    ) as found:
        yield found


def first_event(found: HTTPResponse) -> object:
    """Return the data of the first event of a stream."""
    while not (line := found.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    return json.loads(line.removeprefix(b"data: "))["data"]


def test_values_are_for_those_with_the_right(gateway: GatewayClient) -> None:
    masked, plain = gateway.get("/customer/ann"), gateway.get("/customer/ann", **RIGHT)
    assert (masked.body["state"]["name"], plain.body["state"]["name"]) == ("", "Ann Smith")
    assert (masked.headers["etag"], plain.headers["etag"]) == ('"1"', f'"1-{FIRST_KEY.kid}"')
    assert plain.headers["cache-control"] == "no-store"


def test_histories_and_streams_mask_alike(gateway: GatewayClient) -> None:
    for headers, wanted in (({}, MASKED_DATA), (RIGHT, ANNS_DATA)):
        history = gateway.get("/customer/ann/history", **headers)
        assert [one["data"] for one in history.body["history"]] == [wanted]
        with open_stream(gateway, "/customer/ann?from=beginning", **headers) as found:
            assert first_event(found) == wanted


def test_erased_values_are_shown_to_nobody(gateway: GatewayClient, people: People) -> None:
    gateway.get("/customer/ann", **RIGHT)
    people.erase("ann", FIRST_KEY)
    eventually(lambda: gateway.get("/customer/ann").body["version"] == 2)
    for path in ("/customer/ann", "/customer/ann?version=1", "/customer/ann/history"):
        assert "Ann" not in str(gateway.get(path, **RIGHT).body)
    with open_stream(gateway, "/customer?from=beginning", **RIGHT) as found:
        assert first_event(found) == MASKED_DATA


@pytest.mark.parametrize("seen", ["/customer/ann", "/customer/bob"])
def test_streams_show_no_erased_value(
    gateway: GatewayClient, people: People, seen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier stream has read the keys, perhaps without an event of the person."""
    monkeypatch.setattr(streams, "_PAGE_EVENTS", 1)  # no page has both the name and its erasure
    people.register_with_new_key("bob", SECOND_KEY)
    with open_stream(gateway, f"{seen}?from=beginning", **RIGHT) as found:
        assert first_event(found) == ANNS_DATA
    people.erase("ann", FIRST_KEY)
    with open_stream(gateway, "/customer/ann?from=beginning", **RIGHT) as found:
        assert first_event(found) == MASKED_DATA


def test_replica_holds_no_value(gateway: GatewayClient, people: People, tmp_path: Path) -> None:
    people.register("old", None)  # from before the annotation
    eventually(lambda: gateway.get("/customer/old").status == 200)
    files = [path for path in (tmp_path / "gateway").rglob("*") if path.is_file()]
    assert files and not any(b"Ann Smith" in path.read_bytes() for path in files)
