"""An aggregate with personal fields of several types."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated

from msgspec import Meta

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.personal.data_keys import random_key
from cqrs_cli.core.personal.encrypted_data import encrypt_data
from cqrs_cli.core.personal.encryption import ValueLocation
from cqrs_cli.core.personal.personal_fields import Personal, personal

Mail = Annotated[str, Meta(pattern="@"), personal(erased="x@invalid")]


class Register(cqrs.Command):
    name: Personal[str]
    mail: Mail = "x@invalid"
    plan: str = "free"


class Order(cqrs.Command):
    street: Personal[tuple[str, ...]]
    amount: int
    income: Personal[Decimal | None] = None


class Registered(cqrs.Event):
    name: Personal[str]
    mail: Mail
    plan: str


class Ordered(cqrs.Event):
    street: Personal[tuple[str, ...]]
    amount: int
    income: Personal[Decimal | None] = None


class Customer(cqrs.State):
    name: Personal[str] = ""
    mail: Mail = "x@invalid"
    plan: str = ""
    streets: Personal[dict[str, int]] = cqrs.field(default_factory=dict)
    amount: int = 0


def decide(command: Register | Order, customer: Customer) -> Iterator[Registered | Ordered]:
    match command:
        case Register():
            yield Registered(command.name, command.mail, command.plan)
        case Order():
            yield Ordered(command.street, command.amount, command.income)


def evolve(customer: Customer, event: Registered | Ordered) -> Customer:
    match event:
        case Registered():
            return cqrs.replace(customer, name=event.name, mail=event.mail, plan=event.plan)
        case Ordered():
            streets = {**customer.streets, "/".join(event.street): event.amount}
            return cqrs.replace(customer, streets=streets, amount=customer.amount + event.amount % 100)


decider = cqrs.Decider(decide, evolve, initial=Customer())

CUSTOMER = Aggregate.of("customer", decider)


def encrypted_registration() -> bytes:
    """Return the data of a `Registered` as its topic has them: the personal fields are encrypted."""
    location = ValueLocation("customer", "c-42", "0/0/0", "")
    return encrypt_data(Registered, b'{"name":"Ann","mail":"a@b","plan":"pro"}', random_key(), location)
