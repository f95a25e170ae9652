"""Redacting a message and redacting its JSON give the same result."""

import pytest
from hypothesis import given
from msgspec import Struct
from msgspec.json import decode

from aggregates.counter import Counter
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.masking import mask, mask_data, nullify_data
from cqrs_cli.core.personal.personal_fields import personal_fields
from cqrs_cli.testing.strategies import messages_of
from tests.core.personal.customer import Customer, Order, Ordered, Register, Registered

messages = messages_of([Register, Order, Registered, Ordered, Customer])


def test_personal_values_are_redacted() -> None:
    customer = Customer("Ann", "ann@home", "free", {"x": 1}, 3)
    assert mask(customer) == Customer(plan="free", amount=3)


def test_messages_without_personal_fields_are_unchanged() -> None:
    assert mask(counter := Counter()) is counter
    assert mask_data(Counter, data := b" { } ") is data


@given(messages)
def test_redacting_twice_changes_nothing(message: Struct) -> None:
    assert mask(mask(message)) == mask(message)


@given(messages)
def test_redacted_json_is_json_of_redacted_message(message: Struct) -> None:
    assert mask_data(type(message), encode_json(message)) == encode_json(mask(message))


@given(messages)
def test_only_personal_fields_become_null(message: Struct) -> None:
    nullified = decode(nullify_data(type(message), encode_json(message)))
    expected = decode(encode_json(message))
    expected |= {field.wire: None for field in personal_fields(type(message))}
    assert nullified == expected


def test_missing_field_gets_its_redacted_value() -> None:
    """A field's default may differ from its redacted value."""
    assert decode(mask_data(Register, b'{"plan":"free"}'), type=Register) == Register("", "x@invalid", "free")


@pytest.mark.parametrize("data", [b"[]", b"null", b"{", b'"Ann"'])
def test_data_that_are_no_object_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        mask_data(Register, data)
