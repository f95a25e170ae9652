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

Orders = Spec[Command, Order, Event]

absent = spec(decider)
placed = absent.given(Placed("ann"))
filled = placed.given(LineAdded("tea", 2))
shipped = filled.given(Shipped())
cancelled = filled.given(Cancelled("late"))
deleted = filled.given(Deleted())

CHANGES: list[Command] = [AddLine("tea"), RemoveLine("tea"), Ship(), Cancel()]


def test_order_is_placed_for_customer() -> None:
    absent.when(Place("ann")).then(Placed("ann")).state(Order("placed", "ann"))


def test_an_order_is_placed_once() -> None:
    filled.when(Place("bob")).rejected(code="ALREADY_PLACED")


@pytest.mark.parametrize("command", [*CHANGES, Delete()])
def test_unplaced_order_refuses(command: Command) -> None:
    absent.when(command).rejected(code="NOT_PLACED")


def test_lines_of_one_article_add_up() -> None:
    filled.when(AddLine("tea", 3)).then(LineAdded("tea", 3)).state(Order("placed", "ann", {"tea": 5}))


@pytest.mark.parametrize("quantity", [0, -1])
def test_quantities_are_positive(quantity: int) -> None:
    placed.when(AddLine("tea", quantity)).rejected(code="NOT_POSITIVE")


def test_a_line_is_removed_whole() -> None:
    filled.when(RemoveLine("tea")).then(LineRemoved("tea")).state(Order("placed", "ann"))


def test_missing_line_cannot_be_removed() -> None:
    filled.when(RemoveLine("milk")).rejected(code="NO_SUCH_LINE")


def test_a_filled_order_is_shipped() -> None:
    filled.when(Ship()).then(Shipped()).state(Order("shipped", "ann", {"tea": 2}))


def test_an_empty_order_is_not_shipped() -> None:
    placed.when(Ship()).rejected(code="EMPTY")
    filled.given(LineRemoved("tea")).when(Ship()).rejected(code="EMPTY")


def test_a_cancelled_order_keeps_its_lines() -> None:
    filled.when(Cancel("late")).then(Cancelled("late")).state(Order("cancelled", "ann", {"tea": 2}))


@pytest.mark.parametrize("command", [Place("bob"), AddLine("tea"), RemoveLine("tea"), Cancel(), Delete()])
def test_a_shipped_order_refuses(command: Command) -> None:
    shipped.when(command).rejected(code="SHIPPED")


@pytest.mark.parametrize("command", [Place("bob"), AddLine("tea"), RemoveLine("tea"), Ship()])
def test_a_cancelled_order_refuses(command: Command) -> None:
    cancelled.when(command).rejected(code="CANCELLED")


@pytest.mark.parametrize("order", [placed, filled, cancelled])
def test_unshipped_order_can_be_deleted(order: Orders) -> None:
    order.when(Delete()).then(Deleted()).state(Order("deleted"))


@pytest.mark.parametrize("command", CHANGES)
def test_deleted_order_refuses(command: Command) -> None:
    deleted.when(command).rejected(code="DELETED", message="the order is deleted")


def test_deleted_order_is_placed_again_empty() -> None:
    again = deleted.when(Place("bob")).then(Placed("bob")).state(Order("placed", "bob"))
    again.when(RemoveLine("tea")).rejected(code="NO_SUCH_LINE")


@pytest.mark.parametrize(
    ("order", "command"), [(shipped, Ship()), (cancelled, Cancel("x")), (deleted, Delete())]
)
def test_repeating_the_last_step_changes_nothing(order: Orders, command: Command) -> None:
    order.when(command).unchanged()
