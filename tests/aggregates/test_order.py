import pytest

from aggregates.order import (
    AddLine,
    Cancel,
    Cancelled,
    Command,
    Delete,
    Deleted,
    Event,
    LineAdded,
    LineRemoved,
    Order,
    Place,
    Placed,
    RemoveLine,
    Ship,
    Shipped,
    decider,
)
from cqrs_cli.testing import Spec, spec

OrderSpec = Spec[Command, Order, Event]

no_order = spec(decider)
empty_order = no_order.given(Placed("ann"))
filled_order = empty_order.given(LineAdded("tea", 2))
shipped_order = filled_order.given(Shipped())
cancelled_order = filled_order.given(Cancelled("late"))
deleted_order = filled_order.given(Deleted())

CHANGES: list[Command] = [AddLine("tea"), RemoveLine("tea"), Ship(), Cancel()]


def test_order_is_placed_for_customer() -> None:
    no_order.when(Place("ann")).then(Placed("ann")).state(Order("placed", "ann"))


def test_an_order_is_placed_once() -> None:
    filled_order.when(Place("bob")).rejected(code="ALREADY_PLACED")


@pytest.mark.parametrize("command", [*CHANGES, Delete()])
def test_unplaced_order_rejects_commands(command: Command) -> None:
    no_order.when(command).rejected(code="NOT_PLACED")


def test_lines_of_one_article_add_up() -> None:
    filled_order.when(AddLine("tea", 3)).then(LineAdded("tea", 3)).state(Order("placed", "ann", {"tea": 5}))


@pytest.mark.parametrize("quantity", [0, -1])
def test_quantities_are_positive(quantity: int) -> None:
    empty_order.when(AddLine("tea", quantity)).rejected(code="NOT_POSITIVE")


def test_line_is_removed_completely() -> None:
    filled_order.when(RemoveLine("tea")).then(LineRemoved("tea")).state(Order("placed", "ann"))


def test_missing_line_cannot_be_removed() -> None:
    filled_order.when(RemoveLine("milk")).rejected(code="NO_SUCH_LINE")


def test_a_filled_order_is_shipped() -> None:
    filled_order.when(Ship()).then(Shipped()).state(Order("shipped", "ann", {"tea": 2}))


def test_an_empty_order_is_not_shipped() -> None:
    empty_order.when(Ship()).rejected(code="EMPTY")
    filled_order.given(LineRemoved("tea")).when(Ship()).rejected(code="EMPTY")


def test_a_cancelled_order_keeps_its_lines() -> None:
    filled_order.when(Cancel("late")).then(Cancelled("late")).state(Order("cancelled", "ann", {"tea": 2}))


@pytest.mark.parametrize("command", [Place("bob"), AddLine("tea"), RemoveLine("tea"), Cancel(), Delete()])
def test_shipped_order_rejects_commands(command: Command) -> None:
    shipped_order.when(command).rejected(code="SHIPPED")


@pytest.mark.parametrize("command", [Place("bob"), AddLine("tea"), RemoveLine("tea"), Ship()])
def test_cancelled_order_rejects_commands(command: Command) -> None:
    cancelled_order.when(command).rejected(code="CANCELLED")


@pytest.mark.parametrize("order", [empty_order, filled_order, cancelled_order])
def test_unshipped_order_can_be_deleted(order: OrderSpec) -> None:
    order.when(Delete()).then(Deleted()).state(Order("deleted"))


@pytest.mark.parametrize("command", CHANGES)
def test_deleted_order_rejects_commands(command: Command) -> None:
    deleted_order.when(command).rejected(code="DELETED", message="the order is deleted")


def test_deleted_order_is_placed_again_empty() -> None:
    second_order = deleted_order.when(Place("bob")).then(Placed("bob")).state(Order("placed", "bob"))
    second_order.when(RemoveLine("tea")).rejected(code="NO_SUCH_LINE")


@pytest.mark.parametrize(
    ("order", "command"), [(shipped_order, Ship()), (cancelled_order, Cancel("x")), (deleted_order, Delete())]
)
def test_repeating_the_last_step_changes_nothing(order: OrderSpec, command: Command) -> None:
    order.when(command).unchanged()
