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
from tests.spark.order_topics import TIME, event


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


def from_cents(data: dict[str, Any]) -> Deposited | Closed:
    return Deposited(Decimal(data["cents"]) / 100) if data else Closed()


def account(**upcasters: Any) -> Aggregate:
    return Aggregate.of("account", cqrs.Decider(decide, evolve, Account(), upcasters=upcasters))


def log(*events: tuple[str, Any]) -> MessageList:
    """Return events of the account, at the offsets from 0 on."""
    return [
        Message(
            topic="t",
            partition=0,
            offset=offset,
            value=event(offset, name, data, aggregate="account"),
            timestamp=(1, TIME),
        )
        for offset, (name, data) in enumerate(events)
    ]


def rows(aggregate: Aggregate, type_name: str, messages: MessageList) -> list[dict[str, Any]]:
    event_rows = EventRows(aggregate.name, "t", aggregate, type_name)
    found_rows: list[dict[str, Any]] = event_rows.record_batch(0, messages).to_pylist()
    return found_rows


MIXED = log(("Deposited", {"amount": "1.5", "offset": 1}), ("Closed", {}), ("Deposited", {"amount": "2"}))


def test_rows_are_of_one_type() -> None:
    found_rows = [
        (row["offset"], row["amount"], row["data_offset"]) for row in rows(account(), "Deposited", MIXED)
    ]
    assert found_rows == [(0, Decimal("1.5"), 1), (2, Decimal(2), 7)]
    assert [row["offset"] for row in rows(account(), "Closed", MIXED)] == [1]


def test_upcasters_apply_to_rows() -> None:
    """A retired type becomes a row of its upcaster's type. The column `type` names the retired type."""
    messages = log(("Paid", {"cents": 250}), ("Deposited", {"amount": "1"}), ("Paid", {}))
    aggregate = account(Paid=from_cents)
    found_rows = [(row["type"], row["amount"]) for row in rows(aggregate, "Deposited", messages)]
    assert found_rows == [("account.Paid", Decimal("2.5")), ("account.Deposited", Decimal(1))]
    assert [row["offset"] for row in rows(aggregate, "Closed", messages)] == [2]


def test_upcaster_may_convert_a_current_type() -> None:
    found_rows = rows(account(Deposited=from_cents), "Deposited", log(("Deposited", {"cents": 300})))
    assert [row["amount"] for row in found_rows] == [Decimal(3)]


@pytest.mark.parametrize("type_name", ["Deposited", "Closed"])
def test_types_without_class_are_refused(type_name: str) -> None:
    """The unknown event could be one of the requested type, so it is not skipped, as in every other reader."""
    with pytest.raises(
        ContradictionError, match=r"t partition 0 offset 1: the code knows no event account\.Paid"
    ):
        rows(account(), type_name, log(("Closed", {}), ("Paid", {"cents": 1})))


def test_broken_upcasters_name_the_event() -> None:
    with pytest.raises(ContradictionError, match=r"offset 0: the upcaster of Paid raised .*KeyError"):
        rows(account(Paid=from_cents), "Deposited", log(("Paid", {"pence": 1})))
