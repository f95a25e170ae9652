"""A client learns that a KEK is missing, without seeing a value. Requests without personal values still work."""

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.keys.address import KeyRingAddress
from tests.following.gateway.conftest import GatewayClient, open_stream, running_gateway
from tests.personal.people import FIRST_KEY, SECOND_KEY, TOKENS, People
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

WITH_TOKEN = {"Authorization": "Bearer the-right-to-see"}

#: The only KEK in the gateway's keyring. Events are encrypted under another KEK.
OTHER_KEK = b64encode(b"o" * 64).decode()

PATHS = ("/customer/ann", "/customer/ann?version=1", "/customer/ann/history")


@pytest.fixture
def gateway(people: People, tmp_path: Path) -> Iterator[GatewayClient]:
    people.register_with_new_key("ann", FIRST_KEY)
    (people.folder / "other.json").write_text(json.dumps({"2027": OTHER_KEK}))
    connection = replace(people.connection, keys=KeyRingAddress("file:other.json", people.folder))
    aggregate = people.harness.aggregate
    folder = tmp_path / "gateway"
    with running_gateway(
        connection, people.topics, folder, read_only=True, tokens=TOKENS, aggregate=aggregate
    ) as client:
        client.token = "token-of-everybody"
        yield client


def test_missing_kek_is_a_problem(gateway: GatewayClient, people: People) -> None:
    for path in PATHS:
        response = gateway.get(path, **WITH_TOKEN)
        assert (response.status, response.headers["content-type"]) == (500, "application/problem+json")
        assert response.body["title"] == "CONTRADICTION"
        expected_detail = (
            f"key {FIRST_KEY.kid} of {people.topics.keys} is under the key-encryption key '2026', "
            "which is not in the keyring"
        )
        assert response.body["detail"] == expected_detail
        assert response.headers.get("retry-after") is None
        assert not any(text in str(response.body) for text in ("Ann", "ann@home", OTHER_KEK))


def test_requests_without_values_still_work(gateway: GatewayClient) -> None:
    gateway.get("/customer/ann", **WITH_TOKEN)
    responses = [gateway.get(path) for path in PATHS]
    assert [response.status for response in responses] == [200] * 3
    assert responses[0].body["state"]["name"] is None
    assert gateway.get("/healthz").status == 200


def test_streams_end_with_the_reason(gateway: GatewayClient) -> None:
    with open_stream(gateway, "/customer/ann?from=beginning", **WITH_TOKEN) as stream:
        text = stream.read().decode()
    assert "which is not in the keyring" in text
    assert "data:" not in text


def test_lost_key_is_a_problem(gateway: GatewayClient, people: People) -> None:
    people.put_key("ann", None)
    people.register_with_new_key("bob", SECOND_KEY)
    eventually(lambda: gateway.get("/customer/bob").status == 200)
    for path in PATHS:
        response = gateway.get(path, **WITH_TOKEN)
        assert response.status == 500
        assert f"key {FIRST_KEY.kid} of 'ann' is not in {people.topics.keys}" in response.body["detail"]
