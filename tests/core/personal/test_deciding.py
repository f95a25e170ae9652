"""Deciding commands with personal fields."""

import json
from typing import Any

import pytest

from cqrs_cli.core.checks import fingerprint_function
from tests.core import tally
from tests.core.personal.customer import CUSTOMER
from tests.core.tally import record


class Customers(tally.Partition):
    aggregate = CUSTOMER


def order(street: str = "Elm", amount: int = 1, **attributes: Any) -> bytes:
    data = {"street": [street], "amount": amount}
    return tally.command(data=data, **attributes).replace(b"tally.Add", b"customer.Order")


@pytest.mark.covers("decided-once")
def test_repetition_with_another_name_is_a_duplicate() -> None:
    partition = Customers()
    assert partition.verdict(record(0, order()))["status"] == "accepted"
    assert partition.verdict(record(1, order("Oak")))["status"] == "duplicate"
    assert partition.verdict(record(2, order(amount=2)))["reason"] == "ID_REUSED"


@pytest.mark.parametrize("attributes", [{}, {"expirytime": "2099-01-01T00:00:00Z"}])
def test_fingerprints_omit_personal_fields(attributes: dict[str, Any]) -> None:
    data = json.dumps({"street": ["Elm"], "amount": 1}).encode()
    fingerprint = Customers().verdict(record(0, order(**attributes)))["fingerprint"]
    assert fingerprint == fingerprint_function(CUSTOMER)("customer.Order", data, None)
