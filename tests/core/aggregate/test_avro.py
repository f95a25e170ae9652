"""The generated Avro is read by fastavro, and the JSON of messages converts to it value by value."""

import io
import json
from typing import Any

import fastavro
from fastavro import parse_schema, schemaless_reader, schemaless_writer
from hypothesis import given, settings

from cqrs_cli.core.aggregate.avro import avro_schema
from cqrs_cli.core.aggregate.json_schema import message_schema
from cqrs_cli.core.aggregate.record_schemas import records_schema
from tests.core.aggregate.every_type import MESSAGES, EveryType
from tests.core.personal.customer import CUSTOMER, Registered, encrypted_registration
from tests.core.tally import AGGREGATE, Partition, command, record

SCHEMA = avro_schema(message_schema(EveryType), "shop")
FIELDS = {field.get("jsonName", field["name"]): field for field in SCHEMA["fields"]}


def through_avro(schema: Any, value: Any) -> Any:
    """Return a value after it was written and read."""
    buffer = io.BytesIO()
    schemaless_writer(buffer, parse_schema(schema), value, strict_allow_default=True)
    buffer.seek(0)
    return schemaless_reader(buffer, parse_schema(schema), None)


@given(MESSAGES)
@settings(deadline=None)
def test_every_type_converts(data: bytes) -> None:
    message = json.loads(data)
    message["anything"] = json.dumps(message["anything"])
    renamed = {FIELDS[name]["name"]: value for name, value in message.items()}
    result = through_avro(SCHEMA, renamed)
    assert {name: result[name] for name in renamed} == renamed


def test_defaults_are_avros() -> None:
    assert FIELDS["shortName"]["default"] == 0 and FIELDS["empty"]["default"] == []
    assert FIELDS["default_line"] == {"name": "default_line", "type": ["null", "shop.Line"], "default": None}
    assert FIELDS["at"]["type"] == {"type": "string", "format": "date-time"}


def test_records_of_owners_are_read() -> None:
    partition = Partition()
    partition.decide(
        record(0, command(data={"n": 2}, traceparent="x")), record(1, command(data={"n": -1}, id="2"))
    )
    schema = avro_schema(records_schema(AGGREGATE), "tally")
    records = [json.loads(value) for value, _, _ in (*partition.events, *partition.outcomes)]
    assert len(records) == 4
    for document in [json.loads(command()), *records]:
        result = through_avro(schema, document)
        assert {name: value for name, value in result.items() if name in document} | {"data": {}} == (
            document | {"data": {}}
        )
        assert document["data"].items() <= result["data"].items()


def test_erasure_has_its_record() -> None:
    schema = fastavro.parse_schema(avro_schema(records_schema(CUSTOMER), "customer"))
    assert '"customer.cqrs_Erased_Record"' in json.dumps(schema)


def test_personal_fields_have_decrypted_types() -> None:
    schema = avro_schema(message_schema(Registered), "customer")
    encrypted = encrypted_registration()
    assert not fastavro.validate(json.loads(encrypted), schema, raise_errors=False)
    redacted = CUSTOMER.personal.redact_data(Registered, encrypted)
    assert through_avro(schema, json.loads(redacted)) == json.loads(redacted)
