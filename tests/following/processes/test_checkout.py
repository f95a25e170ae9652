"""The example process manager, without a broker."""

from datetime import timedelta

from aggregates.order import Cancel, Cancelled, Placed, Ship
from aggregates.payment import CallOff, Paid, Request
from cqrs_cli import Send
from cqrs_cli.testing import process
from processes import checkout

CHECKOUT = process(checkout.process)


def test_placing_asks_for_payment() -> None:
    """The process manager also sends a deferred cancellation."""
    CHECKOUT.when(Placed("ann"), aggregate_id="o-7").sends(
        Send("payment", "o-7", Request("ann")),
        Send("order", "o-7", Cancel("not paid in time"), not_before=timedelta(days=3)),
    )


def test_paying_ships() -> None:
    CHECKOUT.when(Paid("tr-93")).sends(Send("order", "id-1", Ship()))


def test_cancelling_calls_off() -> None:
    CHECKOUT.when(Cancelled("late")).sends(Send("payment", "id-1", CallOff(), expect="exists"))
