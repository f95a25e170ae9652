"""A customer, whose name, mail and address can be erased. The country is not personal and stays.

    cqrs send customer c-42 Register name="Ada Byron" mail=ada@example.org country=GB
    cqrs erase customer c-42

An erased customer is gone: the id is not used again. The names of the events and of their fields are the storage
format: add to them, never rename.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, assert_never

import cqrs_cli as cqrs

#: `decide` and `evolve` get the mail address, or its redacted value once it is erased.
Mail = Annotated[str, cqrs.personal(erased="nobody@invalid")]


class Register(cqrs.Command):
    name: cqrs.Personal[str]
    mail: Mail
    country: str


class Move(cqrs.Command):
    address: cqrs.Personal[str]
    country: str


class Leave(cqrs.Command):
    pass


class Registered(cqrs.Event):
    name: cqrs.Personal[str]
    mail: Mail
    country: str


class Moved(cqrs.Event):
    address: cqrs.Personal[str]
    country: str


class Left(cqrs.Event):
    pass


class Customer(cqrs.State):
    status: Literal["absent", "registered", "left", "erased"] = "absent"
    name: cqrs.Personal[str] = ""
    mail: Mail = "nobody@invalid"
    address: cqrs.Personal[str] = ""
    country: str = ""


Command = Register | Move | Leave
Event = Registered | Moved | Left


def decide(command: Command, customer: Customer) -> Iterator[Event]:
    match command, customer.status:
        case _, "erased":
            raise cqrs.Rejected("the customer was erased", code="ERASED")
        case (Register(), "registered") | (Leave(), "absent" | "left"):
            return  # done already
        case Register(name, mail, country), _:
            if "@" not in mail:
                raise cqrs.Rejected("a mail address has an @", code="NO_MAIL")
            yield Registered(name, mail, country)
        case Move(address, country), "registered":
            if (address, country) != (customer.address, customer.country):
                yield Moved(address, country)
        case Leave(), "registered":
            yield Left()
        case _, status:
            raise cqrs.Rejected(f"the customer is {status}", code=status.upper())


def evolve(customer: Customer, event: Event | cqrs.Erased) -> Customer:
    match event:
        case Registered(name, mail, country):
            return Customer("registered", name, mail, country=country)
        case Moved(address, country):
            return cqrs.replace(customer, address=address, country=country)
        case Left():
            return cqrs.replace(customer, status="left")
        case cqrs.Erased():  # the personal fields already have their redacted values
            return cqrs.replace(customer, status="erased")
        case _:
            assert_never(event)


decider = cqrs.Decider(decide, evolve, initial=Customer())
