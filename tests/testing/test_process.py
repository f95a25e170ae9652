import itertools
from collections.abc import Iterator
from typing import Any

import pytest

import cqrs_cli as cqrs
from aggregates.order import AddLine, Placed, Ship, Shipped
from cqrs_cli.testing import BrokenLaw, process
from tests.core.personal.customer import Registered


def react(event: Placed, at: cqrs.Recorded[Any]) -> Iterator[cqrs.Send]:
    yield cqrs.Send("order", at.aggregate_id, Ship())


def test_differences_are_shown() -> None:
    reaction = process(cqrs.Process(react)).when(Placed("ann"))
    with pytest.raises(AssertionError) as raised:
        reaction.sends()
    assert "when:\n  Placed(customer='ann')\nexpected:\n  no command\nfound:\n  Send(" in str(raised.value)


def test_unsubscribed_events_are_refused() -> None:
    with pytest.raises(
        TypeError, match=r"Shipped\(\) is not an event of the subscription: react takes Placed"
    ):
        process(cqrs.Process(react)).when(Shipped())


def test_changing_commands_break_a_law() -> None:
    numbers = itertools.count()

    def react_with_counter(event: Placed, at: cqrs.Recorded[Any]) -> list[cqrs.Send]:
        return [cqrs.Send("order", f"o-{next(numbers)}", Ship())]

    with pytest.raises(BrokenLaw, match="gives other commands when it is called again"):
        process(cqrs.Process(react_with_counter)).when(Placed("ann"))


def test_commands_must_survive_the_wire() -> None:
    def react_with_wrong_type(event: Placed, at: cqrs.Recorded[Any]) -> list[cqrs.Send]:
        return [cqrs.Send("order", "o-1", AddLine("tea", "two"))]  # type: ignore[arg-type]

    with pytest.raises(BrokenLaw, match="AddLine does not survive the wire"):
        process(cqrs.Process(react_with_wrong_type)).when(Placed("ann"))


def test_personal_events_need_erased() -> None:
    def react_to_name(event: Registered, at: cqrs.Recorded[Any]) -> list[cqrs.Send]:
        return []

    def react_to_erasure(event: Registered | cqrs.Erased, at: cqrs.Recorded[Any]) -> list[cqrs.Send]:
        return []

    with pytest.raises(TypeError, match=r"^personal fields are in Registered: subscribe to cqrs\.Erased"):
        process(cqrs.Process(react_to_name))
    process(cqrs.Process(react_to_erasure)).when(cqrs.Erased("key")).sends()
