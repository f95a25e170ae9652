import pytest

from aggregates.bank_account import (
    Account,
    Close,
    Closed,
    Deposit,
    Deposited,
    Open,
    Opened,
    Withdraw,
    Withdrawn,
    decider,
)
from cqrs_cli.testing import spec

open_account = spec(decider).given(Opened("ann"))
closed_account = open_account.given(Closed())


def test_account_is_opened_for_owner() -> None:
    spec(decider).when(Open("ann")).then(Opened("ann")).state(Account(owner="ann"))


def test_an_account_is_opened_once() -> None:
    open_account.when(Open("ann")).rejected(code="ALREADY_OPEN", message="already open")


@pytest.mark.parametrize("command", [Deposit(1), Withdraw(1), Close()])
def test_unopened_account_rejects_commands(command: Deposit | Withdraw | Close) -> None:
    spec(decider).when(command).rejected(code="NOT_OPEN")


def test_deposits_add_up() -> None:
    open_account.given(Deposited(5)).when(Deposit(7)).then(Deposited(7)).state(Account("ann", balance=12))


def test_the_last_penny_can_be_withdrawn() -> None:
    open_account.given(Deposited(5)).when(Withdraw(5)).then(Withdrawn(5)).state(Account("ann", balance=0))


def test_an_account_is_never_overdrawn() -> None:
    withdrawal = open_account.given(Deposited(5)).when(Withdraw(6))
    withdrawal.rejected(code="OVERDRAWN", message="balance is 5, cannot withdraw 6")


@pytest.mark.parametrize("command", [Deposit(0), Deposit(-1), Withdraw(0), Withdraw(-1)])
def test_amounts_are_positive(command: Deposit | Withdraw) -> None:
    open_account.when(command).rejected(code="NOT_POSITIVE")


def test_an_empty_account_can_be_closed() -> None:
    open_account.when(Close()).then(Closed()).state(Account("ann", closed=True))


def test_an_account_with_money_stays_open() -> None:
    open_account.given(Deposited(5)).when(Close()).rejected(code="NOT_EMPTY")


@pytest.mark.parametrize("command", [Open("ann"), Deposit(1), Withdraw(1)])
def test_closed_account_rejects_commands(command: Open | Deposit | Withdraw) -> None:
    closed_account.when(command).rejected(code="CLOSED")


def test_closing_a_closed_account_changes_nothing() -> None:
    closed_account.when(Close()).unchanged()
