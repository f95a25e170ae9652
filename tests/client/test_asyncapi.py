"""The AsyncAPI document: its references resolve, and its schemas accept the records that are sent.

It was checked once by hand against the official schema of AsyncAPI 3.0.0, which no package on PyPI contains.
"""

import json
from collections.abc import Iterator
from typing import Any

import msgspec

from cqrs_cli import registry
from cqrs_cli.client.asyncapi import asyncapi
from cqrs_cli.client.compose import compose
from cqrs_cli.client.envelope import Attributes
from tests.client.shopping import SHOPPING
from tests.core.personal.customer import CUSTOMER
from tests.support import ROOT

BANK_ACCOUNT = registry.load("bank_account", "aggregates", ROOT)
DOCUMENT: Any = json.loads(
    msgspec.json.encode(asyncapi({"bank_account": BANK_ACCOUNT, "shopping": SHOPPING}, "x."))
)


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        yield from ([part["$ref"]] if isinstance(part.get("$ref"), str) else [])
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def resolve(reference: str) -> Any:
    value = DOCUMENT
    for key in reference.removeprefix("#/").split("/"):
        value = value[key]
    return value


def test_every_reference_can_be_resolved() -> None:
    targets = set(references(DOCUMENT))
    assert "#/components/schemas/shopping.Line" in targets
    assert all(resolve(reference) for reference in targets)


def test_document_has_the_parts_of_asyncapi() -> None:
    assert DOCUMENT["asyncapi"] == "3.0.0"
    assert set(DOCUMENT) == {
        "asyncapi",
        "info",
        "defaultContentType",
        "channels",
        "operations",
        "components",
    }
    assert {"title", "version"} <= set(DOCUMENT["info"])
    for operation in DOCUMENT["operations"].values():
        assert operation["action"] in ("send", "receive")
        assert resolve(operation["channel"]["$ref"])["address"].startswith("x.")


def test_channels_are_the_topics() -> None:
    channel = DOCUMENT["channels"]["bank_account.commands"]
    assert channel["address"] == "x.bank_account.commands"
    assert set(channel["messages"]) == {"Open", "Deposit", "Withdraw", "Close"}
    assert set(DOCUMENT["channels"]["bank_account.events"]["messages"]) == {
        cls.__name__ for cls in BANK_ACCOUNT.events.values()
    }
    assert set(DOCUMENT["channels"]["bank_account.outcomes"]["messages"]) == {"outcome"}


def test_payload_has_what_send_writes() -> None:
    command = json.loads(
        compose(SHOPPING, "o", "Place", ["customer[name]=Ada"], Attributes(expected="0")).value
    )
    payload = DOCUMENT["channels"]["shopping.commands"]["messages"]["Place"]["payload"]
    assert set(command) <= set(payload["properties"])
    assert set(payload["required"]) <= set(command)
    data = resolve(payload["properties"]["data"]["anyOf"][0]["$ref"])
    assert set(data["required"]) == set(command["data"])


def test_personal_fields_are_marked() -> None:
    """The document includes the event of their erasure."""
    document: Any = asyncapi({"customer": CUSTOMER}, "")
    for message in ("Register", "Registered"):
        fields = document["components"]["schemas"][f"customer.{message}"]["properties"]
        assert [name for name in fields if "x-personal" in fields[name]] == ["name", "mail"]
    events = document["channels"]["customer.events"]["messages"]
    assert events["Erased"]["payload"]["properties"]["type"] == {"const": "cqrs.Erased"}
    assert "Erased" not in DOCUMENT["channels"]["bank_account.events"]["messages"]
