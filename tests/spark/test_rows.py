"""Messages as rows, without a broker: upcasters, defaults, and fields with the envelope's names."""

from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka import Message

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.errors import ContradictionError
from cqrs_cli.spark.event_rows import EventRows
from cqrs_cli.spark.rows import MessageList
from tests.spark.feeding import DAWN, event


class Deposit(cqrs.Command):
    pass


class Deposited(cqrs.Event):
    amount: Decimal
    offset: int = 7


class Closed(cqrs.Event):
    pass


class Account(cqrs.State):
    pass


def decide(command: Deposit, account: Account) -> list[Deposited | Closed]:
    return [Closed()]


def evolve(account: Account, event: Deposited | Closed) -> Account:
    return account


def from_cents(old: dict[str, Any]) -> Deposited | Closed:
    return Deposited(Decimal(old["cents"]) / 100) if old else Closed()


def account(**upcasters: Any) -> Aggregate:
    return Aggregate.of("account", cqrs.Decider(decide, evolve, Account(), upcasters=upcasters))


def log(*written: tuple[str, Any]) -> MessageList:
    """Return events of the account, at the offsets from 0 on."""
    return [
        Message(
            topic="t",
            partition=0,
            offset=offset,
            value=event(offset, name, data, aggregate="account"),
            timestamp=(1, DAWN),
        )
        for offset, (name, data) in enumerate(written)
    ]


def rows(aggregate: Aggregate, type_name: str, messages: MessageList) -> list[dict[str, Any]]:
    maker = EventRows(aggregate.name, "t", aggregate, type_name)
    found: list[dict[str, Any]] = maker.record_batch(0, messages).to_pylist()
    return found


MIXED = log(("Deposited", {"amount": "1.5", "offset": 1}), ("Closed", {}), ("Deposited", {"amount": "2"}))


def test_rows_are_of_one_type() -> None:
    found = [
        (row["offset"], row["amount"], row["data_offset"]) for row in rows(account(), "Deposited", MIXED)
    ]
    assert found == [(0, Decimal("1.5"), 1), (2, Decimal(2), 7)]
    assert [row["offset"] for row in rows(account(), "Closed", MIXED)] == [1]


def test_upcasters_apply_to_rows() -> None:
    """A retired type becomes a row of its upcaster's type. The column `type` has its own name."""
    old = log(("Paid", {"cents": 250}), ("Deposited", {"amount": "1"}), ("Paid", {}))
    aggregate = account(Paid=from_cents)
    found = [(row["type"], row["amount"]) for row in rows(aggregate, "Deposited", old)]
    assert found == [("account.Paid", Decimal("2.5")), ("account.Deposited", Decimal(1))]
    assert [row["offset"] for row in rows(aggregate, "Closed", old)] == [2]


def test_upcaster_of_the_type_itself() -> None:
    reshaped = rows(account(Deposited=from_cents), "Deposited", log(("Deposited", {"cents": 300})))
    assert [row["amount"] for row in reshaped] == [Decimal(3)]


@pytest.mark.parametrize("type_name", ["Deposited", "Closed"])
def test_types_without_class_are_refused(type_name: str) -> None:
    """The unknown event could belong to the requested type, and no other reader skips it either."""
    with pytest.raises(
        ContradictionError, match=r"t partition 0 offset 1: the code knows no event account\.Paid"
    ):
        rows(account(), type_name, log(("Closed", {}), ("Paid", {"cents": 1})))


def test_broken_upcasters_name_the_event() -> None:
    with pytest.raises(ContradictionError, match=r"offset 0: the upcaster of Paid raised .*KeyError"):
        rows(account(Paid=from_cents), "Deposited", log(("Paid", {"pence": 1})))
