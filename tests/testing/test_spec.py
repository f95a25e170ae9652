from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

import cqrs_cli as cqrs
from aggregates.bank_account import Account, Deposit, Deposited, Open, Opened, Withdraw, Withdrawn, decider
from cqrs_cli.testing import BrokenLaw, spec

account = spec(decider).given(Opened("ann"), Deposited(5))


def test_checks_can_be_chained() -> None:
    account.when(Withdraw(2)).then(Withdrawn(2)).state(Account("ann", 3)).when(Withdraw(4)).rejected(
        "OVERDRAWN"
    )


def test_given_does_not_change_its_specification() -> None:
    account.given(Deposited(5))
    account.when(Withdraw(6)).rejected("OVERDRAWN")


def test_wrong_event_shows_its_difference() -> None:
    with pytest.raises(AssertionError) as raised:
        account.when(Deposit(7)).then(Deposited(8))
    assert str(raised.value) == (
        "in state:\n  Account(owner='ann', balance=5, closed=False)\n"
        "when:\n  Deposit(amount=7)\n"
        "expected:\n  Deposited(amount=8)\n"
        "found:\n  Deposited(amount=7)\n"
        "that is:\n  event 1: amount is 7, expected 8"
    )


def test_too_few_events_are_counted() -> None:
    with pytest.raises(AssertionError, match="1 events instead of 2"):
        account.when(Deposit(7)).then(Deposited(7), Deposited(7))


def test_unexpected_rejection_is_shown() -> None:
    with pytest.raises(
        AssertionError, match=r"found:\n  rejected with OVERDRAWN: balance is 5, cannot withdraw 7"
    ):
        account.when(Withdraw(7)).then(Withdrawn(7))


def test_other_code_is_not_expected() -> None:
    with pytest.raises(
        AssertionError, match=r"expected:\n  rejected with CLOSED\nfound:\n  rejected with OVERDRAWN"
    ):
        account.when(Withdraw(7)).rejected("CLOSED")


def test_other_message_is_not_expected() -> None:
    with pytest.raises(AssertionError, match="rejected with OVERDRAWN: no"):
        account.when(Withdraw(7)).rejected("OVERDRAWN", message="no")


def test_an_accepted_command_is_not_rejected() -> None:
    with pytest.raises(AssertionError, match=r"expected:\n  rejected\nfound:\n  Withdrawn"):
        account.when(Withdraw(2)).rejected()


@pytest.mark.parametrize("command", [Withdraw(2), Withdraw(7)])
def test_events_and_rejections_are_changes(command: Withdraw) -> None:
    with pytest.raises(AssertionError, match=r"expected:\n  no event"):
        account.when(command).unchanged()


class Pay(cqrs.Command):
    pass


class Paid(cqrs.Event):
    total: int


class Order(cqrs.State):
    total: int = 0


def pay(command: Pay, order: Order) -> Iterator[Paid]:
    if not order.total:
        raise cqrs.Later(after=timedelta(seconds=30), reason="no total yet")
    yield Paid(order.total)


def total_of(order: Order, event: Paid) -> Order:
    return Order(event.total)


order = spec(cqrs.Decider(pay, total_of, initial=Order()))


def test_later_defers_a_command() -> None:
    order.when(Pay()).deferred(timedelta(seconds=30), "no total yet").deferred().state(Order())


@pytest.mark.parametrize(
    ("after", "reason", "expected"),
    [(timedelta(seconds=31), None, "deferred for 0:00:31"), (None, "no", "deferred: no")],
)
def test_other_deferral_is_not_expected(after: timedelta | None, reason: str | None, expected: str) -> None:
    with pytest.raises(
        AssertionError, match=f"expected:\n  {expected}\nfound:\n  deferred for 0:00:30: no total yet"
    ):
        order.when(Pay()).deferred(after, reason)


def test_an_accepted_command_is_not_deferred() -> None:
    with pytest.raises(AssertionError, match=r"expected:\n  deferred\nfound:\n  Paid"):
        order.given(Paid(5)).when(Pay()).deferred()


@pytest.mark.parametrize("is_unchanged", [True, False])
def test_a_deferred_command_is_not_decided(is_unchanged: bool) -> None:
    deferred = order.when(Pay())
    with pytest.raises(AssertionError, match="found:\n  deferred for"):
        deferred.unchanged() if is_unchanged else deferred.then(Paid(5))


def test_wrong_state_shows_its_difference() -> None:
    with pytest.raises(AssertionError, match="balance is 3, expected 4"):
        account.when(Withdraw(2)).state(Account("ann", 4))


def test_then_needs_events() -> None:
    with pytest.raises(TypeError, match="unchanged"):
        account.when(Withdraw(2)).then()


def test_foreign_command_is_refused() -> None:
    class Foreign(cqrs.Command):
        pass

    with pytest.raises(TypeError, match="decide takes Open, Deposit, Withdraw, Close"):
        account.when(Foreign())  # type: ignore[arg-type]


def test_foreign_event_is_refused() -> None:
    class Foreign(cqrs.Event):
        pass

    with pytest.raises(BrokenLaw, match="evolve takes Opened, Deposited, Withdrawn, Closed"):
        account.given(Foreign())  # type: ignore[arg-type]


def test_wrong_type_breaks_the_wire() -> None:
    with pytest.raises(BrokenLaw, match=r"does not survive the wire: Expected `str`, got `int`"):
        spec(decider).when(Open(7))  # type: ignore[arg-type]


class Renew(cqrs.Command):
    pass


class Renewed(cqrs.Event):
    until: datetime


class Pass(cqrs.State):
    until: datetime | None = None


def decide(command: Renew, ticket: Pass, at: cqrs.Context) -> list[Renewed]:
    if ticket.until is not None and at.time < ticket.until:
        raise cqrs.Rejected(f"{at.aggregate_id} at version {at.version} is valid", code="VALID")
    return [Renewed(at.time + timedelta(days=30))]


def evolve(ticket: Pass, event: Renewed) -> Pass:
    return Pass(event.until)


renewals = cqrs.Decider(decide, evolve, initial=Pass())
MAY = datetime(2026, 5, 1, tzinfo=UTC)
valid_pass = spec(renewals).given(Renewed(MAY))


def test_command_is_decided_at_a_time() -> None:
    summer = timezone(timedelta(hours=2))
    valid_pass.when(Renew(), at=MAY).then(Renewed(datetime(2026, 5, 31, tzinfo=UTC)))
    valid_pass.when(Renew(), at=MAY.astimezone(summer)).when(Renew(), at=MAY).rejected("VALID")


def test_command_is_decided_in_a_context() -> None:
    at = cqrs.Context("ann", 7, MAY - timedelta(days=1), "c-1", "o-1")
    valid_pass.when(Renew(), at=at).rejected(message="ann at version 7 is valid")


def test_default_context_counts_the_events() -> None:
    valid_pass.given(Renewed(MAY)).when(Renew()).rejected(message="id-1 at version 2 is valid")
    spec(renewals).when(Renew()).when(Renew()).rejected(message="id-1 at version 1 is valid")


def test_a_time_needs_its_zone() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        valid_pass.when(Renew(), at=datetime(2026, 5, 1))
