from aggregates.payment import CalledOff, CallOff, Paid, Pay, Payment, Request, Requested, decider
from cqrs_cli.testing import spec

requested_payment = spec(decider).given(Requested("ann"))


def test_payment_is_requested_once() -> None:
    spec(decider).when(Request("ann")).then(Requested("ann")).when(Request("ann")).unchanged()


def test_paid_payment_cannot_be_called_off() -> None:
    requested_payment.when(Pay("tr-1")).then(Paid("tr-1")).state(Payment("paid"))
    requested_payment.given(Paid("tr-1")).when(CallOff()).rejected(code="PAID")


def test_unrequested_payment_is_rejected() -> None:
    spec(decider).when(Pay("tr-1")).rejected(code="NOT_REQUESTED")


def test_called_off_payment_can_be_requested() -> None:
    requested_payment.when(CallOff()).then(CalledOff()).when(Request("bob")).then(Requested("bob"))
