"""The generated .proto is compiled by protoc, and ProtoJSON reads the JSON of messages by it."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from hypothesis import given, settings

from cqrs_cli.core.aggregate.compatibility import compare_contracts, contract_of
from cqrs_cli.core.aggregate.json_schema import message_schema
from cqrs_cli.core.aggregate.protobuf import proto_file
from cqrs_cli.core.aggregate.record_schemas import records_schema
from tests.core.aggregate.contracts import contract_with
from tests.core.aggregate.every_type import MESSAGES, EveryType
from tests.core.personal.customer import CUSTOMER, Registered, encrypted_registration
from tests.core.tally import AGGREGATE, Partition, command, record


def compile_proto(folder: Path, text: str) -> Any:
    """Compile a file by protoc; return a function from names of messages to their classes."""
    from grpc_tools import protoc

    (folder / "made.proto").write_text(text)
    included = Path(protoc.__file__).parent / "_proto"
    arguments = [f"-I{folder}", f"-I{included}", f"--python_out={folder}"]
    descriptors = folder / "descriptors"
    assert (
        protoc.main(
            ["", *arguments, "--include_imports", f"--descriptor_set_out={descriptors}", "made.proto"]
        )
        == 0
    )
    assert (folder / "made_pb2.py").exists()
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors.read_bytes()).file:
        pool.Add(file)
    return lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@pytest.fixture(scope="module")
def every_type(tmp_path_factory: pytest.TempPathFactory) -> Any:
    text = proto_file(message_schema(EveryType), "shop", {})
    return compile_proto(tmp_path_factory.mktemp("proto"), text)("shop.EveryType")


def read(message_class: Any, data: bytes) -> Any:
    """Return a JSON text as Protobuf has it: read by ProtoJSON, written as bytes, read again, printed as ProtoJSON."""
    message = json_format.Parse(data, message_class())
    copy = message_class.FromString(message.SerializeToString())
    return json_format.MessageToDict(copy, always_print_fields_with_no_presence=True)


def assert_equal(written: Any, printed: Any) -> None:
    """Compare JSON with ProtoJSON, where an int64 is a text, a time is in UTC, and null may be left out."""
    if isinstance(written, dict):
        for name, value in written.items():
            assert_equal(value, printed.get(name))
    elif isinstance(written, list):
        assert len(written) == len(printed)
        for item, printed_item in zip(written, printed, strict=True):
            assert_equal(item, printed_item)
    elif written is None:
        assert not printed
    elif isinstance(written, str) and printed != written:
        assert datetime.fromisoformat(printed) == datetime.fromisoformat(written)
    elif isinstance(written, int | float):
        assert type(written)(printed) == written or float(printed) == float(written)


@given(MESSAGES)
@settings(deadline=None)
def test_every_type_is_read(every_type: Any, data: bytes) -> None:
    assert_equal(json.loads(data), read(every_type, data))


def test_records_of_owners_are_read(tmp_path: Path) -> None:
    partition = Partition()
    partition.decide(record(0, command(traceparent="x")), record(1, command(data={"n": -1}, id="2")))
    classes = compile_proto(tmp_path, proto_file(records_schema(AGGREGATE), "tally", {}))
    names = {
        "Add_Record": [command()],
        "Added_Record": [value for value, _, _ in partition.events],
        "cqrs_OutcomeEnvelope": [value for value, _, _ in partition.outcomes],
    }
    for name, values in names.items():
        for value in values:
            assert_equal(json.loads(value or b""), read(classes(f"tally.{name}"), value or b""))


def test_personal_fields_have_decrypted_types(tmp_path: Path) -> None:
    """An encrypted value is an object, which a reader with the field's type rejects; a redacted value fits the type."""
    classes = compile_proto(tmp_path, proto_file(records_schema(CUSTOMER), "customer", {}))
    assert classes("customer.cqrs_Erased_Record").DESCRIPTOR.fields_by_name["data"].number == 2
    with pytest.raises(json_format.ParseError, match="name field"):
        read(classes("customer.Registered_Record"), b'{"data":%b}' % encrypted_registration())
    redacted = CUSTOMER.personal.redact_data(Registered, encrypted_registration())
    message = read(classes("customer.Registered_Record"), b'{"data":%b}' % redacted)
    assert message["data"] == {"name": "", "mail": "x@invalid", "plan": "pro"}


#: The fields of the messages of cqrs itself, in the order of their numbers.
OWN_FIELDS = {
    "Add_Record": """type data specversion id source subject expectedversion expirytime notbefore correlationid
        causationid dataref datasha256 datasize traceparent tracestate""",
    "Added_Record": """type data specversion id source subject time causationid correlationid aggregateversion
        eventindex eventcount dataref datasha256 datasize traceparent tracestate""",
    "cqrs_OutcomeEnvelope": """id type data time subject causationid correlationid source specversion traceparent
        tracestate""",
    "cqrs_Verdict": """status reason code message retryable expected version events partition offset fingerprint
        original decidedat due attempt deferredfrom movedto target""",
}


@pytest.mark.parametrize("name", OWN_FIELDS)
def test_own_numbers_are_fixed(name: str) -> None:
    """Programs have compiled these numbers. A new attribute gets the next number."""
    text = proto_file(records_schema(AGGREGATE), "tally", {})
    message = text.partition(f"message {name} {{")[2].partition("\n}")[0]
    assert re.findall(r" (\w+) = (\d+)", message) == [
        (field, str(number)) for number, field in enumerate(OWN_FIELDS[name].split(), 1)
    ]


def test_committed_numbers_are_kept() -> None:
    """A removed field keeps its number, and a field with a new type gets a new number."""
    old_contract = contract_with(customer="age: int = 0; city: str = ''")
    aggregate_contract = contract_with(customer="city: str = ''; age: float = 0; mail: str = ''")
    assert old_contract["protobuf"]["Customer"] == ["string name", "int64 age", "string city"]
    numbers = old_contract["protobuf"]
    text = proto_file({"$ref": "#/$defs/Done", **aggregate_contract}, "made", numbers)
    (message,) = [part for part in text.split("message ") if part.startswith("Customer")]
    assert [line.strip() for line in message.splitlines()[1:6]] == [
        "reserved 2;  // int64 age",
        "string name = 1;",
        "optional string city = 3;",
        "optional double age = 4;",
        "optional string mail = 5;",
    ]


def test_contract_without_numbers_is_amber() -> None:
    contract = contract_of(AGGREGATE)
    old_contract = {name: part for name, part in contract.items() if name != "protobuf"}
    (change,) = compare_contracts(old_contract, contract)
    assert (change.level, change.description) == ("amber", "numbers of Protobuf fields are not committed yet")
    assert contract_of(AGGREGATE, {"protobuf": {"Added": ["string old"]}})["protobuf"]["Added"] == [
        "string old",
        "int64 n",
    ]
