"""The gateway shows personal values only to users who have the right, and stores none."""

import json
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path

import pytest

from cqrs_cli.following.gateway import streams
from tests.following.gateway.conftest import GatewayClient, open_stream, running_gateway
from tests.personal.people import ANNS_DATA, FIRST_KEY, MASKED_DATA, SECOND_KEY, TOKENS, People
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

#: The headers of a request that may see personal values.
WITH_TOKEN = {"Authorization": "Bearer the-right-to-see"}


@pytest.fixture
def gateway(people: People, tmp_path: Path) -> Iterator[GatewayClient]:
    people.register_with_new_key("ann", FIRST_KEY)
    aggregate = people.harness.aggregate
    folder = tmp_path / "gateway"
    with running_gateway(
        people.connection, people.topics, folder, read_only=True, tokens=TOKENS, aggregate=aggregate
    ) as client:
        client.token = "token-of-everybody"
        yield client


#: Ann's registration for requests without the right.
NULLIFIED_DATA = {"name": None, "mail": None, "plan": "free"}


def first_event(stream: HTTPResponse) -> object:
    """Return the data of the first event of a stream."""
    while not (line := stream.readline()).startswith(b"data: "):
        assert line, "the stream has ended"
    return json.loads(line.removeprefix(b"data: "))["data"]


def test_values_need_the_token(gateway: GatewayClient) -> None:
    redacted, decrypted = gateway.get("/customer/ann"), gateway.get("/customer/ann", **WITH_TOKEN)
    assert (redacted.body["state"]["name"], decrypted.body["state"]["name"]) == (None, "Ann Smith")
    assert (redacted.body["redacted"], "redacted" in decrypted.body) == (["name", "mail", "streets"], False)
    assert (redacted.headers["etag"], decrypted.headers["etag"]) == ('"1"', f'"1-{FIRST_KEY.kid}"')
    assert decrypted.headers["cache-control"] == "no-store"


def test_histories_and_streams_redact_alike(gateway: GatewayClient) -> None:
    for headers, expected_data in (({}, NULLIFIED_DATA), (WITH_TOKEN, ANNS_DATA)):
        history = gateway.get("/customer/ann/history", **headers)
        assert [event["data"] for event in history.body["history"]] == [expected_data]
        with open_stream(gateway, "/customer/ann?from=beginning", **headers) as stream:
            assert first_event(stream) == expected_data


def test_erased_values_are_never_shown(gateway: GatewayClient, people: People) -> None:
    gateway.get("/customer/ann", **WITH_TOKEN)
    people.erase("ann", FIRST_KEY)
    eventually(lambda: gateway.get("/customer/ann").body["version"] == 2)
    for path in ("/customer/ann", "/customer/ann?version=1", "/customer/ann/history"):
        assert "Ann" not in str(gateway.get(path, **WITH_TOKEN).body)
    with open_stream(gateway, "/customer?from=beginning", **WITH_TOKEN) as stream:
        assert first_event(stream) == MASKED_DATA


@pytest.mark.parametrize("earlier_path", ["/customer/ann", "/customer/bob"])
def test_streams_show_no_erased_value(
    gateway: GatewayClient, people: People, earlier_path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An earlier stream has read the keys, perhaps without an event of the person."""
    monkeypatch.setattr(streams, "_PAGE_EVENTS", 1)  # no page has both the name and its erasure
    people.register_with_new_key("bob", SECOND_KEY)
    with open_stream(gateway, f"{earlier_path}?from=beginning", **WITH_TOKEN) as stream:
        assert first_event(stream) == ANNS_DATA
    people.erase("ann", FIRST_KEY)
    with open_stream(gateway, "/customer/ann?from=beginning", **WITH_TOKEN) as stream:
        assert first_event(stream) == MASKED_DATA


def test_replica_stores_no_value(gateway: GatewayClient, people: People, tmp_path: Path) -> None:
    people.register("old", None)  # from before the annotation
    eventually(lambda: gateway.get("/customer/old").status == 200)
    files = [path for path in (tmp_path / "gateway").rglob("*") if path.is_file()]
    assert files and not any(b"Ann Smith" in path.read_bytes() for path in files)
