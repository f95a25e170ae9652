import pytest

import cqrs_cli as cqrs
from aggregates.bank_account import Account, Deposit, Deposited, Open, Opened, Withdraw, Withdrawn, decider
from cqrs_cli.testing import BrokenLaw, spec

rich = spec(decider).given(Opened("ann"), Deposited(5))


def test_checks_can_be_chained() -> None:
    rich.when(Withdraw(2)).then(Withdrawn(2)).state(Account("ann", 3)).when(Withdraw(4)).rejected("OVERDRAWN")


def test_given_leaves_the_specification_it_came_from_as_it_was() -> None:
    rich.given(Deposited(5))
    rich.when(Withdraw(6)).rejected("OVERDRAWN")


def test_a_wrong_event_shows_state_command_and_the_field_that_differs() -> None:
    with pytest.raises(AssertionError) as failure:
        rich.when(Deposit(7)).then(Deposited(8))
    assert str(failure.value) == (
        "in state:\n  Account(owner='ann', balance=5, closed=False)\n"
        "when:\n  Deposit(amount=7)\n"
        "expected:\n  Deposited(amount=8)\n"
        "found:\n  Deposited(amount=7)\n"
        "that is:\n  event 1: amount is 7, expected 8"
    )


def test_too_few_events_are_counted() -> None:
    with pytest.raises(AssertionError, match="1 events instead of 2"):
        rich.when(Deposit(7)).then(Deposited(7), Deposited(7))


def test_an_unexpected_rejection_is_shown_with_code_and_message() -> None:
    with pytest.raises(
        AssertionError, match=r"found:\n  rejected with OVERDRAWN: balance is 5, cannot withdraw 7"
    ):
        rich.when(Withdraw(7)).then(Withdrawn(7))


def test_another_code_is_not_the_expected_rejection() -> None:
    with pytest.raises(
        AssertionError, match=r"expected:\n  rejected with CLOSED\nfound:\n  rejected with OVERDRAWN"
    ):
        rich.when(Withdraw(7)).rejected("CLOSED")


def test_another_message_is_not_the_expected_rejection() -> None:
    with pytest.raises(AssertionError, match="rejected with OVERDRAWN: no"):
        rich.when(Withdraw(7)).rejected("OVERDRAWN", message="no")


def test_an_accepted_command_is_not_rejected() -> None:
    with pytest.raises(AssertionError, match=r"expected:\n  rejected\nfound:\n  Withdrawn"):
        rich.when(Withdraw(2)).rejected()


@pytest.mark.parametrize("command", [Withdraw(2), Withdraw(7)])
def test_neither_events_nor_a_rejection_are_unchanged(command: Withdraw) -> None:
    with pytest.raises(AssertionError, match=r"expected:\n  no event"):
        rich.when(command).unchanged()


def test_a_wrong_state_shows_the_field_that_differs() -> None:
    with pytest.raises(AssertionError, match="balance is 3, expected 4"):
        rich.when(Withdraw(2)).state(Account("ann", 4))


def test_expecting_no_events_is_said_in_words() -> None:
    with pytest.raises(TypeError, match="unchanged"):
        rich.when(Withdraw(2)).then()


def test_a_command_of_another_aggregate_is_refused() -> None:
    class Foreign(cqrs.Command):
        pass

    with pytest.raises(TypeError, match="decide takes Open, Deposit, Withdraw, Close"):
        rich.when(Foreign())  # type: ignore[arg-type]


def test_an_event_of_another_aggregate_is_refused() -> None:
    class Foreign(cqrs.Event):
        pass

    with pytest.raises(BrokenLaw, match="evolve takes Opened, Deposited, Withdrawn, Closed"):
        rich.given(Foreign())  # type: ignore[arg-type]


def test_a_value_of_the_wrong_type_does_not_survive_the_wire() -> None:
    with pytest.raises(BrokenLaw, match=r"does not survive the wire: Expected `str`, got `int`"):
        spec(decider).when(Open(7))  # type: ignore[arg-type]
