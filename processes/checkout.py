"""Ask for payment when an order is placed; ship it when it is paid; call the payment off with the order.

    cqrs process checkout

A process has no state: an order and its payment have the same id, which is all that it needs to know.
"""

from collections.abc import Iterator
from typing import Any

import cqrs_cli as cqrs
from aggregates.order import Cancelled, Placed, Ship
from aggregates.payment import CallOff, Paid, Request


def react(event: Placed | Cancelled | Paid, at: cqrs.Recorded[Any]) -> Iterator[cqrs.Send]:
    match event:
        case Placed(customer):
            yield cqrs.Send("payment", at.aggregate_id, Request(customer))
        case Cancelled():
            yield cqrs.Send("payment", at.aggregate_id, CallOff(), expect="exists")
        case Paid():
            yield cqrs.Send("order", at.aggregate_id, Ship())


process = cqrs.Process(react)
