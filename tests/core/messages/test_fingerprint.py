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
mark = fingerprint_function(CUSTOMER)


def test_fingerprints_without_marks_stay() -> None:
    """The outcomes of every aggregate contain fingerprints."""
    assert fingerprint_function(Aggregate.of("counter", decider)) is fingerprint
    assert fingerprint("counter.Increment", Raw(b'{"by": 3}'), None) == 972471894
    assert fingerprint("counter.Increment", b'{"by":3}', "7") == 594691161


@given(st.text(), st.text(), st.integers())
def test_personal_values_do_not_count(name: str, other: str, amount: int) -> None:
    def of(street: str) -> int:
        return mark(ORDER, encode_json({"street": [street], "amount": amount}), "1")

    assert of(name) == of(other)


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        (ORDER, b'{"street":["x"],"amount":2}', None),
        (ORDER, b'{"street":["x"],"amount":1,"more":1}', None),
        (ORDER, b'{"street":["x"],"amount":1}', "1"),
        (REGISTER, b'{"street":["x"],"amount":1}', None),
    ],
)
def test_all_else_counts(kind: str, data: bytes, expected: str | None) -> None:
    assert mark(kind, data, expected) != mark(ORDER, b'{"street":["x"],"amount":1}', None)


def test_sealed_value_changes_nothing() -> None:
    """A deferred command is resubmitted with encrypted values."""
    plain, sealed = b'{"street":["x"],"amount":1}', b'{"street":{"$sealed":"AAAA"},"amount":1}'
    assert mark(ORDER, sealed, None) == mark(ORDER, plain, None)


@pytest.mark.parametrize("data", [b'["Ann"]', b'"Ann"', b"null", b'{"', b"[" * 2000])
def test_other_data_do_not_count(data: bytes) -> None:
    assert mark(ORDER, data, "1") == fingerprint(ORDER, b"{}", "1")


def test_unknown_types_count_alone() -> None:
    assert mark("customer.Odrer", b'{"street":["x"]}', None) == fingerprint("customer.Odrer", b"{}", None)


def test_requests_count_whole() -> None:
    data = b'{"id":"a"}'
    assert mark("cqrs.Cancel", data, None) == fingerprint("cqrs.Cancel", data, None)
