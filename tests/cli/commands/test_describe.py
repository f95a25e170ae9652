import json
from pathlib import Path

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


def test_asyncapi_has_the_topics(cqrs: Cqrs) -> None:
    document = cqrs("describe", "counter", "--topic-prefix", "x.", "-o", "asyncapi").document
    assert document["asyncapi"] == "3.0.0"
    assert document["channels"]["counter.events"]["address"] == "x.counter.events"


def test_records_and_data_have_schemas(cqrs: Cqrs) -> None:
    """An aggregate's schema has the envelope; a message's schema has the data alone."""
    names = [record["name"] for record in json.loads(cqrs("describe", "counter", "-o", "avro").out)]
    assert names[:2] == ["counter.Increment_Record", "counter.Reset_Record"]
    schema = cqrs("describe", "counter", "-o", "json-schema").document
    assert schema["anyOf"][0] == {"$ref": "#/$defs/Increment.Record"}
    for output, name in (("avro", "counter.Incremented"), ("protobuf", "message Incremented {")):
        text = cqrs("describe", "counter", "Incremented", "-o", output).out
        assert name in text and "eventindex" not in text
    assert cqrs("describe", "counter", "Incremented", "-o", "json-schema").document == (
        cqrs("describe", "counter", "Incremented", "-o", "json").document
    )


def test_numbers_come_from_the_contract(cqrs: Cqrs, tmp_path: Path) -> None:
    """Without a contract a note warns that the numbers may change."""
    assert "cqrs check --write" in cqrs("describe", "counter", "-o", "protobuf").err
    cqrs("check", "counter", "--write")
    contract = tmp_path / "schemas" / "counter.json"
    document = json.loads(contract.read_text())
    document["protobuf"]["Incremented"].insert(0, "string gone")
    contract.write_text(json.dumps(document))
    cqrs("check", "counter", "--write")
    result = cqrs("describe", "counter", "-o", "protobuf")
    assert result.err == ""
    assert "message Incremented {\n  reserved 1;  // string gone\n  int64 by = 2;" in result.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["describe", "bank"], "no aggregate 'bank'"),
        (["describe", "counter", "Decrement"], "counter has no 'Decrement'; known: Increment, Reset"),
        (["describe", "counter", "Reset", "-o", "asyncapi"], "-o asyncapi describes whole aggregates"),
        (["describe", "-o", "avro"], "-o avro describes one aggregate; name it"),
        (["describe", "counter", "Decrement", "-o", "avro"], "counter has no 'Decrement'"),
        (["send", "counter"], "ID and COMMAND are missing; counter has Increment, Reset; see cqrs describe"),
        (["send", "counter", "a"], "COMMAND is missing; counter has Increment, Reset"),
    ],
)
def test_unknown_names_exit_2(cqrs: Cqrs, arguments: list[str], message: str) -> None:
    result = cqrs(*arguments)
    assert result.status == 2
    assert message in result.err
