from aggregates.payment import CalledOff, CallOff, Paid, Pay, Payment, Request, Requested, decider
from cqrs_cli.testing import spec

requested = spec(decider).given(Requested("ann"))


def test_payment_is_requested_once() -> None:
    spec(decider).when(Request("ann")).then(Requested("ann")).when(Request("ann")).unchanged()


def test_paying_ends_it() -> None:
    requested.when(Pay("tr-1")).then(Paid("tr-1")).state(Payment("paid"))
    requested.given(Paid("tr-1")).when(CallOff()).rejected(code="PAID")


def test_only_requests_are_paid() -> None:
    spec(decider).when(Pay("tr-1")).rejected(code="NOT_REQUESTED")


def test_calling_off_allows_another() -> None:
    requested.when(CallOff()).then(CalledOff()).when(Request("bob")).then(Requested("bob"))
