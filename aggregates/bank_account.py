"""A bank account that is never overdrawn. Amounts are in the smallest unit of one currency.

    cqrs send bank_account acc-42 Open owner=ann
    cqrs send bank_account acc-42 Deposit amount:=100

The names of the events and of their fields are the storage format: add new names, never change a name.
"""

from collections.abc import Iterator
from typing import assert_never

import cqrs_cli as cqrs


class Open(cqrs.Command):
    owner: str


class Deposit(cqrs.Command):
    amount: int


class Withdraw(cqrs.Command):
    amount: int


class Close(cqrs.Command):
    """Close the empty account, for ever. Closing it again changes nothing."""


class Opened(cqrs.Event):
    owner: str


class Deposited(cqrs.Event):
    amount: int


class Withdrawn(cqrs.Event):
    amount: int


class Closed(cqrs.Event):
    pass


class Account(cqrs.State):
    owner: str | None = None
    balance: int = 0
    closed: bool = False


def decide(
    command: Open | Deposit | Withdraw | Close, account: Account
) -> Iterator[Opened | Deposited | Withdrawn | Closed]:
    match command:
        case Close() if account.closed:
            return
        case _ if account.closed:
            raise cqrs.Rejected("the account is closed", code="CLOSED")
        case Open(owner) if account.owner is None:
            yield Opened(owner)
        case Open():
            raise cqrs.Rejected("already open", code="ALREADY_OPEN")
        case _ if account.owner is None:
            raise cqrs.Rejected("the account has not been opened", code="NOT_OPEN")
        case Deposit(amount) | Withdraw(amount) if amount <= 0:
            raise cqrs.Rejected(f"the amount must be positive, not {amount}", code="NOT_POSITIVE")
        case Deposit(amount):
            yield Deposited(amount)
        case Withdraw(amount) if amount > account.balance:
            raise cqrs.Rejected(f"balance is {account.balance}, cannot withdraw {amount}", code="OVERDRAWN")
        case Withdraw(amount):
            yield Withdrawn(amount)
        case Close() if account.balance:
            raise cqrs.Rejected(f"balance is {account.balance}, withdraw it first", code="NOT_EMPTY")
        case Close():
            yield Closed()
        case _:
            assert_never(command)


def evolve(account: Account, event: Opened | Deposited | Withdrawn | Closed) -> Account:
    match event:
        case Opened(owner):
            return cqrs.replace(account, owner=owner)
        case Deposited(amount):
            return cqrs.replace(account, balance=account.balance + amount)
        case Withdrawn(amount):
            return cqrs.replace(account, balance=account.balance - amount)
        case Closed():
            return cqrs.replace(account, closed=True)


decider = cqrs.Decider(decide, evolve, initial=Account())
