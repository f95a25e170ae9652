"""A payment, which is requested for an order, then paid or called off.

    cqrs send payment o-7 Request customer=ann
    cqrs send payment o-7 Pay reference=tr-93

The names of the events and of their fields are the storage format: add new names, never change a name.
"""

from collections.abc import Iterator
from typing import Literal, assert_never

import cqrs_cli as cqrs


class Request(cqrs.Command):
    customer: str


class Pay(cqrs.Command):
    reference: str


class CallOff(cqrs.Command):
    pass


class Requested(cqrs.Event):
    customer: str


class Paid(cqrs.Event):
    reference: str


class CalledOff(cqrs.Event):
    pass


class Payment(cqrs.State):
    status: Literal["absent", "requested", "paid", "called off"] = "absent"


Command = Request | Pay | CallOff
Event = Requested | Paid | CalledOff


def decide(command: Command, payment: Payment) -> Iterator[Event]:
    match command, payment.status:
        case (Request(), "requested") | (CallOff(), "called off"):
            return  # done already
        case Request(customer), "absent" | "called off":
            yield Requested(customer)
        case Pay(reference), "requested":
            yield Paid(reference)
        case CallOff(), "requested":
            yield CalledOff()
        case _, "absent":
            raise cqrs.Rejected("no payment was requested", code="NOT_REQUESTED")
        case _, status:
            raise cqrs.Rejected(f"the payment is {status}", code=status.upper().replace(" ", "_"))


def evolve(payment: Payment, event: Event) -> Payment:
    match event:
        case Requested():
            return Payment("requested")
        case Paid():
            return Payment("paid")
        case CalledOff():
            return Payment("called off")
        case _:
            assert_never(event)


decider = cqrs.Decider(decide, evolve, initial=Payment())
