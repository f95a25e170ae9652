"""An order: placed, filled with lines, then shipped, cancelled or deleted.

A deleted order keeps its history and its version, but customer and lines are dropped. It rejects every change
until it is placed again as a new order.

    cqrs send order o-7 Place customer=ann
    cqrs send order o-7 AddLine sku=tea quantity:=2

The names of the events and of their fields are the storage format: add new names, never change a name.
"""

from collections.abc import Iterator
from typing import Literal, assert_never

import cqrs_cli as cqrs


class Place(cqrs.Command):
    customer: str


class AddLine(cqrs.Command):
    """Add some of an article; if the order holds it already, more of it."""

    sku: str
    quantity: int = 1


class RemoveLine(cqrs.Command):
    sku: str


class Ship(cqrs.Command):
    pass


class Cancel(cqrs.Command):
    reason: str = ""


class Delete(cqrs.Command):
    pass


class Placed(cqrs.Event):
    customer: str


class LineAdded(cqrs.Event):
    sku: str
    quantity: int


class LineRemoved(cqrs.Event):
    sku: str


class Shipped(cqrs.Event):
    pass


class Cancelled(cqrs.Event):
    reason: str


class Deleted(cqrs.Event):
    pass


class Order(cqrs.State):
    status: Literal["absent", "placed", "shipped", "cancelled", "deleted"] = "absent"
    customer: str = ""
    lines: dict[str, int] = {}  # noqa: RUF012 - each state gets its own; article → quantity


Command = Place | AddLine | RemoveLine | Ship | Cancel | Delete
Event = Placed | LineAdded | LineRemoved | Shipped | Cancelled | Deleted


def decide(command: Command, order: Order) -> Iterator[Event]:
    match command, order.status:
        case (Ship(), "shipped") | (Cancel(), "cancelled") | (Delete(), "deleted"):
            return  # done already
        case Place(customer), "absent" | "deleted":
            yield Placed(customer)
        case _, "absent":
            raise cqrs.Rejected("the order has not been placed", code="NOT_PLACED")
        case Delete(), "placed" | "cancelled":
            yield Deleted()
        case _, "shipped" | "cancelled" | "deleted":
            raise cqrs.Rejected(f"the order is {order.status}", code=order.status.upper())
        case _:
            yield from _decide_placed(command, order)


def _decide_placed(command: Command, order: Order) -> Iterator[Event]:
    match command:
        case Place():
            raise cqrs.Rejected("the order is placed already", code="ALREADY_PLACED")
        case AddLine(sku, quantity) if quantity > 0:
            yield LineAdded(sku, quantity)
        case AddLine(_, quantity):
            raise cqrs.Rejected(f"the quantity must be positive, not {quantity}", code="NOT_POSITIVE")
        case RemoveLine(sku) if sku in order.lines:
            yield LineRemoved(sku)
        case RemoveLine(sku):
            raise cqrs.Rejected(f"the order holds no {sku!r}", code="NO_SUCH_LINE")
        case Ship() if order.lines:
            yield Shipped()
        case Ship():
            raise cqrs.Rejected("the order is empty", code="EMPTY")
        case Cancel(reason):
            yield Cancelled(reason)
        case Delete():
            yield Deleted()
        case _:
            assert_never(command)


def evolve(order: Order, event: Event) -> Order:
    match event:
        case Placed(customer):
            return Order(status="placed", customer=customer)
        case LineAdded(sku, quantity):
            return cqrs.replace(order, lines={**order.lines, sku: order.lines.get(sku, 0) + quantity})
        case LineRemoved(sku):
            return cqrs.replace(order, lines={s: n for s, n in order.lines.items() if s != sku})
        case Shipped():
            return cqrs.replace(order, status="shipped")
        case Cancelled():
            return cqrs.replace(order, status="cancelled")
        case Deleted():
            return Order(status="deleted")


decider = cqrs.Decider(decide, evolve, initial=Order())
