"""Request payment when an order is placed, ship the order when it is paid, cancel it when it is not paid in time.

    cqrs run --process checkout

A process manager has no state. No lookup is needed, because an order and its payment have the same id. The cancellation
is sent at the start and deferred; an order that was shipped in time rejects the cancellation.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import cqrs_cli as cqrs
from aggregates.order import Cancel, Cancelled, Placed, Ship
from aggregates.payment import CallOff, Paid, Request

PATIENCE = timedelta(days=3)


def react(event: Placed | Cancelled | Paid, at: cqrs.Recorded[Any]) -> Iterator[cqrs.Send]:
    match event:
        case Placed(customer):
            yield cqrs.Send("payment", at.aggregate_id, Request(customer))
            yield cqrs.Send("order", at.aggregate_id, Cancel("not paid in time"), not_before=PATIENCE)
        case Cancelled():
            yield cqrs.Send("payment", at.aggregate_id, CallOff(), expect="exists")
        case Paid():
            yield cqrs.Send("order", at.aggregate_id, Ship())


process = cqrs.Process(react)
