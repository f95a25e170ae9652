"""Events are redacted, whether their personal fields are encrypted or not."""

import json

from msgspec import Raw

from cqrs_cli.core.aggregate.erased import ERASED
from cqrs_cli.core.encrypted_events import (
    personal_members,
    read_encrypted_event,
    redact_command,
    redact_event,
)
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.encrypted_data import encrypt_data
from cqrs_cli.core.personal.encryption import DataKey, ValueLocation
from tests.core import tally
from tests.core.personal.customer import CUSTOMER, Registered

KEY = DataKey.of_random(bytes(72))
ANN = Registered("Ann Smith", "ann@home", "free")
PLAIN = encode_json(ANN)
SEALED = encrypt_data(Registered, PLAIN, KEY, ValueLocation("customer", "c-42", "0/1/0", ""))
MARKS = personal_members(CUSTOMER)


def document(data: bytes, kind: str = "customer.Registered") -> bytes:
    return encode_json({"id": "0/1/0", "type": kind, "subject": "c-42", "data": Raw(data)})


def masked(value: bytes) -> bytes:
    assert MARKS is not None
    return redact_event(MARKS, value)


def test_masks_have_no_value() -> None:
    wanted = {"name": "", "mail": "x@invalid", "plan": "free"}
    assert [json.loads(masked(document(data)))["data"] for data in (PLAIN, SEALED)] == [wanted, wanted]


def test_retired_events_lose_what_was_sealed() -> None:
    found = json.loads(masked(document(SEALED, "customer.Retired")))["data"]
    assert found == {"name": None, "mail": None, "plan": "free"}


def test_other_records_stay() -> None:
    for value in (b"?", b"{}", document(b"null"), document(b'{"key":"x"}', ERASED)):
        assert masked(value) is value


def test_deferred_commands_are_masked() -> None:
    found = json.loads(redact_command(CUSTOMER, document(SEALED, "customer.Register")))["data"]
    assert found == {"name": "", "mail": "x@invalid", "plan": "free"}
    assert redact_command(tally.AGGREGATE, b"?") == b"?"


def test_only_marked_aggregates_are_looked_at() -> None:
    assert personal_members(tally.AGGREGATE) is None
    assert read_encrypted_event(document(PLAIN)) is None and read_encrypted_event(b'"$sealed"') is None
    assert read_encrypted_event(document(SEALED)) is not None
