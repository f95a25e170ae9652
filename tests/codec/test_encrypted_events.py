"""Events are redacted, whether their personal fields are encrypted or not."""

import json

from msgspec import Raw

from cqrs_cli.codec.encrypted_events import (
    personal_members,
    read_encrypted_event,
    redact_command,
    redact_event,
)
from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encrypted_data import encrypt_data
from cqrs_cli.core.personal.encryption import DataKey, ValueLocation
from tests.core import tally
from tests.core.personal.customer import CUSTOMER, Registered

KEY = DataKey.of_random(bytes(72))
ANN = Registered("Ann Smith", "ann@home", "free")
PLAIN = encode_json(ANN)
ENCRYPTED = encrypt_data(Registered, PLAIN, KEY, ValueLocation("customer", "c-42", "0/1/0", ""))
ANNOTATIONS = personal_members(CUSTOMER)


def document(data: bytes, type: str = "customer.Registered") -> bytes:
    return encode_json({"id": "0/1/0", "type": type, "subject": "c-42", "data": Raw(data)})


def redacted(value: bytes) -> bytes:
    assert ANNOTATIONS is not None
    return redact_event(ANNOTATIONS, value)


def test_redacted_events_have_no_values() -> None:
    expected = {"name": "", "mail": "x@invalid", "plan": "free"}
    assert [json.loads(redacted(document(data)))["data"] for data in (PLAIN, ENCRYPTED)] == [
        expected,
        expected,
    ]


def test_retired_events_lose_encrypted_fields() -> None:
    data = json.loads(redacted(document(ENCRYPTED, "customer.Retired")))["data"]
    assert data == {"name": None, "mail": None, "plan": "free"}


def test_other_records_are_unchanged() -> None:
    for value in (b"?", b"{}", document(b"null"), document(b'{"key":"x"}', ERASED)):
        assert redacted(value) is value


def test_deferred_commands_are_redacted() -> None:
    data = json.loads(redact_command(CUSTOMER, document(ENCRYPTED, "customer.Register")))["data"]
    assert data == {"name": "", "mail": "x@invalid", "plan": "free"}
    assert redact_command(tally.AGGREGATE, b"?") == b"?"


def test_aggregates_without_annotations_are_skipped() -> None:
    assert personal_members(tally.AGGREGATE) is None
    assert read_encrypted_event(document(PLAIN)) is None and read_encrypted_event(b'"$sealed"') is None
    assert read_encrypted_event(document(ENCRYPTED)) is not None
