"""Fingerprints never change without personal fields, and do not depend on personal values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from aggregates.counter import decider
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.checks import fingerprint_function
from cqrs_cli.core.messages.fingerprint import fingerprint
from cqrs_cli.core.messages.json import encode_json
from tests.core.personal.customer import CUSTOMER

ORDER, REGISTER = "customer.Order", "customer.Register"
customer_fingerprint = fingerprint_function(CUSTOMER)


def test_fingerprints_without_personal_fields_are_fixed() -> None:
    """The outcomes of every aggregate contain fingerprints."""
    assert fingerprint_function(Aggregate.of("counter", decider)) is fingerprint
    assert fingerprint("counter.Increment", Raw(b'{"by": 3}'), None) == 972471894
    assert fingerprint("counter.Increment", b'{"by":3}', "7") == 594691161


@given(st.text(), st.text(), st.integers())
def test_personal_values_do_not_count(name: str, other_name: str, amount: int) -> None:
    def fingerprint_of(street: str) -> int:
        return customer_fingerprint(ORDER, encode_json({"street": [street], "amount": amount}), "1")

    assert fingerprint_of(name) == fingerprint_of(other_name)


@pytest.mark.parametrize(
    ("type", "data", "expected"),
    [
        (ORDER, b'{"street":["x"],"amount":2}', None),
        (ORDER, b'{"street":["x"],"amount":1,"more":1}', None),
        (ORDER, b'{"street":["x"],"amount":1}', "1"),
        (REGISTER, b'{"street":["x"],"amount":1}', None),
    ],
)
def test_other_values_count(type: str, data: bytes, expected: str | None) -> None:
    assert customer_fingerprint(type, data, expected) != customer_fingerprint(
        ORDER, b'{"street":["x"],"amount":1}', None
    )


def test_encrypted_value_changes_nothing() -> None:
    """A deferred command is resubmitted with encrypted values."""
    plain, encrypted = b'{"street":["x"],"amount":1}', b'{"street":{"$sealed":"AAAA"},"amount":1}'
    assert customer_fingerprint(ORDER, encrypted, None) == customer_fingerprint(ORDER, plain, None)


@pytest.mark.parametrize("data", [b'["Ann"]', b'"Ann"', b"null", b'{"', b"[" * 2000])
def test_other_data_do_not_count(data: bytes) -> None:
    assert customer_fingerprint(ORDER, data, "1") == fingerprint(ORDER, b"{}", "1")


def test_data_of_unknown_types_does_not_count() -> None:
    assert customer_fingerprint("customer.Odrer", b'{"street":["x"]}', None) == fingerprint(
        "customer.Odrer", b"{}", None
    )


def test_data_of_requests_counts() -> None:
    data = b'{"id":"a"}'
    assert customer_fingerprint("cqrs.Cancel", data, None) == fingerprint("cqrs.Cancel", data, None)
