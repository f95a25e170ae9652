"""The charges of a customer. A payment provider is called for each request, and its answer settles the request.

    cqrs send charge ann Request amount=70

Requests are numbered. The names of the events and of their fields are the storage format: add to them, never rename.
"""

from collections.abc import Iterator

import cqrs_cli as cqrs


class Request(cqrs.Command):
    amount: int


class Settle(cqrs.Command):
    """The receipt for a call of the provider."""

    number: int
    paid: bool


class Requested(cqrs.Event):
    number: int
    amount: int


class Paid(cqrs.Event):
    number: int


class Declined(cqrs.Event):
    number: int


class Charges(cqrs.State):
    requested: int = 0
    open: tuple[int, ...] = ()


Command = Request | Settle
Event = Requested | Paid | Declined


def decide(command: Command, charges: Charges) -> Iterator[Event]:
    match command:
        case Request(amount):
            yield Requested(charges.requested + 1, amount)
        case Settle(number, paid) if number in charges.open:
            yield Paid(number) if paid else Declined(number)


def evolve(charges: Charges, event: Event) -> Charges:
    match event:
        case Requested(number):
            return Charges(number, (*charges.open, number))
        case Paid(number) | Declined(number):
            return cqrs.replace(charges, open=tuple(other for other in charges.open if other != number))


decider = cqrs.Decider(decide, evolve, initial=Charges())
