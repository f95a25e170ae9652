import json

import pytest

from cqrs_cli.cli.render.describe import message_text
from cqrs_cli.client.compose import compose
from tests.cli.conftest import Cqrs
from tests.client.shopping import SHOPPING
from tests.core.personal.customer import CUSTOMER


def test_aggregates_are_described(cqrs: Cqrs) -> None:
    result = cqrs("describe")
    assert result.status == 0
    assert "bank_account\n  A bank account that is never overdrawn." in result.out
    assert "\n  Increment, Reset\n" in result.out


def test_messages_have_fields_and_docstrings(cqrs: Cqrs) -> None:
    out = cqrs("describe", "order").out
    assert "  AddLine  Add some of an article; if the order holds it already, more of it.\n" in out
    assert "    quantity  int = 1\n" in out
    assert 'status    "absent" | "placed" | "shipped" | "cancelled" | "deleted" = "absent"' in out
    assert out.index("\nCommands\n") < out.index("\nEvents\n") < out.index("\nState\n")


def test_command_is_shown_as_sent(cqrs: Cqrs) -> None:
    assert cqrs("describe", "order", "AddLine").out.rstrip().endswith("cqrs send order ID AddLine sku=…")


def test_nested_fields_are_shown_as_sent() -> None:
    """The two fields belong to the same item. `[]` in each would create two items."""
    text = message_text(SHOPPING, SHOPPING.commands["shopping.Place"])
    field_names = [line.split()[0] for line in text.splitlines() if line.lstrip().startswith("lines[")]
    assert field_names[:2] == ["lines[0][sku]", "lines[0][quantity]"]
    command = compose(
        SHOPPING, "o-1", "Place", ["customer[name]=Ada", f"{field_names[0]}=tea", f"{field_names[1]}=2"]
    )
    assert json.loads(command.value)["data"]["lines"] == [{"sku": "tea", "quantity": 2}]


def test_personal_fields_are_labelled() -> None:
    text = message_text(CUSTOMER, CUSTOMER.commands["customer.Register"])
    assert [line.split()[0] for line in text.splitlines() if line.endswith("  personal")] == ["name", "mail"]


def test_json_is_json_schema(cqrs: Cqrs) -> None:
    schema = cqrs("describe", "bank_account", "-o", "json").document
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["commands"]["bank_account.Deposit"] == {"$ref": "#/$defs/Deposit"}
    assert schema["$defs"]["Deposit"]["required"] == ["amount"]
    assert schema["state"] == {"$ref": "#/$defs/Account"}
    document = cqrs("describe", "bank_account", "Opened", "-o", "json").document
    assert document["$ref"] == "#/$defs/Opened" and document["$defs"]["Opened"]["required"] == ["owner"]
    assert set(cqrs("describe", "-o", "json").document["aggregates"]) >= {"bank_account", "order"}


@pytest.mark.parametrize("output", ["text", "json"])
def test_asyncapi_is_json_for_both_outputs(cqrs: Cqrs, output: str) -> None:
    document = cqrs("describe", "counter", "--asyncapi", "--topic-prefix", "x.", "-o", output).document
    assert document["asyncapi"] == "3.0.0"
    assert document["channels"]["counter.events"]["address"] == "x.counter.events"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "bank"], "no aggregate 'bank'"),
        (["describe", "counter", "Decrement"], "counter has no 'Decrement'; known: Increment, Reset"),
        (["describe", "counter", "Reset", "--asyncapi"], "--asyncapi describes whole aggregates"),
        (["send", "counter"], "ID and COMMAND are missing; counter has Increment, Reset; see cqrs describe"),
        (["send", "counter", "a"], "COMMAND is missing; counter has Increment, Reset"),
    ],
)
def test_unknown_names_exit_2(cqrs: Cqrs, arguments: list[str], message: str) -> None:
    result = cqrs(*arguments)
    assert result.status == 2
    assert message in result.err
