"""All readers read events of retired types and shapes as current events."""

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.errors import InvalidAggregate
from cqrs_cli.core.fold import FoldError, fold_event
from cqrs_cli.core.messages.event import EventEnvelope, read_event
from cqrs_cli.testing import BrokenLaw, laws


class Deposit(cqrs.Command):
    amount: Decimal


class MoneyDeposited(cqrs.Event):
    amount: Decimal
    currency: str


class Retired(cqrs.Event):
    pass


class Account(cqrs.State):
    balance: Decimal = Decimal(0)


def decide(command: Deposit, account: Account) -> list[MoneyDeposited]:
    return [MoneyDeposited(command.amount, "EUR")]


def evolve(account: Account, event: MoneyDeposited) -> Account:
    return Account(account.balance + event.amount)


def from_v1(old: dict[str, Any]) -> MoneyDeposited:
    return MoneyDeposited(Decimal(old["cents"]) / 100, "EUR")


def aggregate(upcasters: Any) -> Aggregate:
    return Aggregate.of("account", cqrs.Decider(decide, evolve, Account(), upcasters=upcasters))


def event(name: str, data: Any) -> EventEnvelope:
    document = {"id": "0/7/0", "type": f"account.{name}", "subject": "a", "time": "", "causationid": "c"}
    numbers = {"aggregateversion": 1, "eventindex": 0, "eventcount": 1}
    return read_event(json.dumps({**document, **numbers, "data": data}).encode())


def error_text(upcaster: Callable[[dict[str, Any]], Any], data: Any) -> str:
    with pytest.raises(FoldError) as failure:
        fold_event(aggregate({"Deposited": upcaster}), None, event("Deposited", data))
    return str(failure.value)


@pytest.mark.covers("state-is-events")
def test_retired_event_is_folded() -> None:
    folded = fold_event(aggregate({"Deposited": from_v1}), None, event("Deposited", {"cents": 150}))
    assert folded is not None and folded.state == Account(Decimal("1.5"))


@pytest.mark.covers("state-is-events")
def test_event_without_upcaster_is_refused() -> None:
    with pytest.raises(
        FoldError, match=r"knows no event account.Deposited: deploy .* or give it an upcaster"
    ):
        fold_event(aggregate({}), None, event("Deposited", {"cents": 150}))


def test_upcaster_gets_old_and_new_shapes() -> None:
    """Old and new shapes have the same name: the function distinguishes them by their fields."""

    def upcast(data: dict[str, Any]) -> MoneyDeposited:
        return MoneyDeposited(Decimal(data["amount"]), data.get("currency", "DEM"))

    for data, currency in (({"amount": "1"}, "DEM"), ({"amount": "1", "currency": "EUR"}, "EUR")):
        account = aggregate({"MoneyDeposited": upcast})
        assert account.decode_event["account.MoneyDeposited"](json.dumps(data).encode()).currency == currency  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("upcaster", "data", "message"),
    [
        (from_v1, {}, "the upcaster of Deposited raised test_upcasting.py:"),
        (from_v1, [], "the data of Deposited are not a JSON object: b'[]'"),
        (from_v1, {"cents": "NaN"}, "a number that is not finite"),
        (lambda old: Retired(), {}, "returned Retired(): not a current event: evolve accepts MoneyDeposited"),
        (lambda old: None, {}, "returned None: not a current event"),
        (lambda old: MoneyDeposited(Decimal(1), 7), {}, "Expected `str`, got `int`"),  # type: ignore[arg-type]
    ],
)
def test_failing_upcaster_is_named(
    upcaster: Callable[[dict[str, Any]], Any], data: Any, message: str
) -> None:
    text = error_text(upcaster, data)
    assert message in text and text.endswith("(on account.Deposited 0/7/0)")


async def async_upcaster(old: dict[str, Any]) -> MoneyDeposited:
    return from_v1(old)


def to_retired(old: dict[str, Any]) -> Retired:
    return Retired()


def to_either(old: dict[str, Any]) -> MoneyDeposited | Retired:
    return Retired()


@pytest.mark.parametrize(
    ("upcasters", "message"),
    [
        (from_v1, "upcasters must be a dict from an event's name to a function"),
        ({"account.Deposited": from_v1}, "'account.Deposited' is not the name of an event"),
        ({MoneyDeposited: from_v1}, "is not the name of an event"),
        ({"Deposited": 7}, "the upcaster of Deposited must be a function of one parameter.* found 7"),
        ({"Deposited": lambda: None}, "must be a function of one parameter"),
        ({"Deposited": async_upcaster}, "not `async def`"),
        ({"Deposited": to_either}, "the upcaster of Deposited returns Retired, which evolve does not accept"),
        (
            {"Deposited": to_retired},
            "the upcaster of Deposited returns Retired, which evolve does not accept",
        ),
    ],
)
def test_wrong_upcaster_is_refused(upcasters: Any, message: str) -> None:
    with pytest.raises(InvalidAggregate, match=message) as failure:
        aggregate(upcasters)
    assert callable(failure.value.where)


def test_schema_digest_depends_on_upcasters() -> None:
    """A shard is rebuilt after the upcasters changed, and the rebuild finds events that the code cannot read."""
    without_upcasters, with_upcaster = aggregate({}), aggregate({"Deposited": from_v1})
    assert without_upcasters.schema_digest != with_upcaster.schema_digest
    assert (
        without_upcasters.schema_digest
        == Aggregate.of("account", cqrs.Decider(decide, evolve, Account())).schema_digest
    )


OLD_DATA = b'{"cents": 150}'


def check_laws_of(samples: Any, upcaster: Callable[[dict[str, Any]], Any] = from_v1) -> None:
    def decide_nothing(command: Deposit, account: Account) -> list[MoneyDeposited]:
        return []

    upcasters = {"Deposited": upcaster}
    laws(cqrs.Decider(decide_nothing, evolve, Account(), upcasters=upcasters), examples=1, samples=samples)


def test_samples_keep_retired_shapes() -> None:
    check_laws_of({"Deposited": [OLD_DATA]})
    check_laws_of({"Deposited": {OLD_DATA: MoneyDeposited(Decimal("1.5"), "EUR")}})


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ({}, "the upcaster of Deposited has no sample"),
        ({"Deposited": []}, "the upcaster of Deposited has no sample"),
        ({"Deposited": [b"{}"]}, r"Deposited {} cannot be read: the upcaster of Deposited raised"),
        ({"Deposited": {OLD_DATA: MoneyDeposited(Decimal(2), "EUR")}}, "is read as .*'1.5'.*, not as .*'2'"),
        (
            {"Deposited": [OLD_DATA], "Opened": [b"{}"]},
            "Opened is sampled, but is neither a current event nor has an upcaster",
        ),
    ],
)
def test_broken_sample_is_named(samples: Any, message: str) -> None:
    with pytest.raises(BrokenLaw, match=message):
        check_laws_of(samples)


def test_random_upcaster_is_refused() -> None:
    calls = iter(range(9))
    with pytest.raises(BrokenLaw, match="the upcaster of Deposited depends on chance or time"):
        check_laws_of({"Deposited": [OLD_DATA]}, lambda old: MoneyDeposited(Decimal(next(calls)), "EUR"))


def test_upcaster_must_keep_current_data() -> None:
    """The laws apply an upcaster with the name of a current event to the events of `decide`."""
    halving_upcasters = {
        "MoneyDeposited": lambda data: MoneyDeposited(Decimal(data["amount"]) / 2, data["currency"])
    }
    decider = cqrs.Decider(decide, evolve, Account(), upcasters=halving_upcasters)
    with pytest.raises(BrokenLaw, match="does not survive the wire: it is decoded to another value"):
        laws(decider, samples={"MoneyDeposited": [b'{"amount": "1", "currency": "EUR"}']})
