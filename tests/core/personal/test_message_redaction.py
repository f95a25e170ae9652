"""Redacting a message and redacting its JSON give the same result."""

import pytest
from hypothesis import given
from msgspec import Struct
from msgspec.json import decode

from aggregates.counter import Counter
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.message_redaction import nullify_data, redact_data, redact_message
from cqrs_cli.core.personal.personal_fields import personal_fields
from cqrs_cli.testing.strategies import messages_of
from tests.core.personal.customer import Customer, Order, Ordered, Register, Registered

messages = messages_of([Register, Order, Registered, Ordered, Customer])


def test_personal_values_are_redacted() -> None:
    customer = Customer("Ann", "ann@home", "free", {"x": 1}, 3)
    assert redact_message(customer) == Customer(plan="free", amount=3)


def test_messages_without_personal_fields_are_unchanged() -> None:
    assert redact_message(counter := Counter()) is counter
    assert redact_data(Counter, data := b" { } ") is data


@given(messages)
def test_redacting_twice_changes_nothing(message: Struct) -> None:
    assert redact_message(redact_message(message)) == redact_message(message)


@given(messages)
def test_redacted_json_is_json_of_redacted_message(message: Struct) -> None:
    assert redact_data(type(message), encode_json(message)) == encode_json(redact_message(message))


@given(messages)
def test_only_personal_fields_become_null(message: Struct) -> None:
    nullified = decode(nullify_data(type(message), encode_json(message)))
    expected = decode(encode_json(message))
    expected |= {field.wire_name: None for field in personal_fields(type(message))}
    assert nullified == expected


def test_missing_field_gets_its_redacted_value() -> None:
    """A field's default may differ from its redacted value."""
    assert decode(redact_data(Register, b'{"plan":"free"}'), type=Register) == Register(
        "", "x@invalid", "free"
    )


@pytest.mark.parametrize("data", [b"[]", b"null", b"{", b'"Ann"'])
def test_data_that_are_no_object_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        redact_data(Register, data)
