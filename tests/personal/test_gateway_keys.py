"""A client learns that a KEK is missing, without seeing a value. Requests without personal values still work."""

import json
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cqrs_cli.following.gateway.token import GatewayTokens
from cqrs_cli.keys.address import KeyRingAddress
from tests.following.gateway.conftest import GatewayClient, open_stream, running_gateway
from tests.personal.people import FIRST_KEY, SECOND_KEY, People
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

RIGHT = {"Authorization": "Bearer the-right-to-see"}

#: The only KEK in the gateway's keyring. Events are encrypted under another KEK.
OTHER = b64encode(b"o" * 64).decode()

PATHS = ("/customer/ann", "/customer/ann?version=1", "/customer/ann/history")


@pytest.fixture
def gateway(people: People, tmp_path: Path) -> Iterator[GatewayClient]:
    people.register_with_new_key("ann", FIRST_KEY)
    (people.folder / "other.json").write_text(json.dumps({"2027": OTHER}))
    connection = replace(people.connection, keys=KeyRingAddress("file:other.json", people.folder))
    tokens, served = GatewayTokens(personal="the-right-to-see"), people.harness.aggregate
    folder = tmp_path / "gateway"
    with running_gateway(
        connection, people.topics, folder, read_only=True, tokens=tokens, aggregate=served
    ) as found:
        yield found


def test_lacking_master_key_is_a_problem(gateway: GatewayClient, people: People) -> None:
    for path in PATHS:
        told = gateway.get(path, **RIGHT)
        assert (told.status, told.headers["content-type"]) == (500, "application/problem+json")
        assert told.body["title"] == "CONTRADICTION"
        wanted = (
            f"key {FIRST_KEY.kid} of {people.topics.keys} is under the key-encryption key '2026', "
            "which is not in the keyring"
        )
        assert told.body["detail"] == wanted
        assert told.headers.get("retry-after") is None
        assert not any(text in str(told.body) for text in ("Ann", "ann@home", OTHER))


def test_who_asks_for_no_values_goes_on(gateway: GatewayClient) -> None:
    gateway.get("/customer/ann", **RIGHT)
    answers = [gateway.get(path) for path in PATHS]
    assert [one.status for one in answers] == [200] * 3
    assert answers[0].body["state"]["name"] == ""
    assert gateway.get("/healthz").status == 200


def test_streams_of_values_end_with_the_reason(gateway: GatewayClient) -> None:
    with open_stream(gateway, "/customer/ann?from=beginning", **RIGHT) as found:
        said = found.read().decode()
    assert "which is not in the keyring" in said
    assert "data:" not in said


def test_lost_key_is_a_problem(gateway: GatewayClient, people: People) -> None:
    people.put_key("ann", None)
    people.register_with_new_key("bob", SECOND_KEY)
    eventually(lambda: gateway.get("/customer/bob").status == 200)
    for path in PATHS:
        told = gateway.get(path, **RIGHT)
        assert told.status == 500
        assert f"key {FIRST_KEY.kid} of 'ann' is not in {people.topics.keys}" in told.body["detail"]
