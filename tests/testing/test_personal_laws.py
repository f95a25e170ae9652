"""The law of erasing, kept and broken."""

from collections.abc import Callable, Iterator

import pytest

import cqrs_cli as cqrs
from cqrs_cli.core.personal.personal_fields import Personal
from cqrs_cli.testing import BrokenLaw, check_laws, laws, spec
from tests.core import tally
from tests.core.personal import customer
from tests.core.personal.customer import Customer, Order, Ordered, Register, Registered, decide, evolve

Evolve = Callable[[Customer, Registered | Ordered], Customer]


class Strict(cqrs.State):
    """A state that refuses redacted values."""

    name: Personal[str] = "nobody"

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("no name")


def evolve_counting_letters(state: Customer, event: Registered | Ordered) -> Customer:
    new_state = evolve(state, event)
    return cqrs.replace(new_state, amount=len(event.name)) if isinstance(event, Registered) else new_state


def evolve_counting_streets(state: Customer, event: Registered | Ordered) -> Customer:
    return cqrs.replace(evolve(state, event), amount=len(state.streets))


def evolve_dividing_by_letters(state: Customer, event: Registered | Ordered) -> Customer:
    return cqrs.replace(state, amount=9 // len(event.name)) if isinstance(event, Registered) else state


def decide_requiring_a_name(command: Register | Order, state: Customer) -> Iterator[Registered | Ordered]:
    if state.plan and state.name == "":
        raise LookupError("who?")
    yield from decide(cqrs.replace(command, name="Ann"), state) if isinstance(command, Register) else ()


def evolve_strict(state: Strict, event: Registered) -> Strict:
    return Strict(event.name or "nobody")


def decide_strict(command: Register, state: Strict) -> Iterator[Registered]:
    yield Registered(command.name, command.mail, command.plan)


@pytest.mark.program
def test_personal_fields_keep_the_laws() -> None:
    check_laws(customer, examples=50)


@pytest.mark.parametrize("broken_evolve", [evolve_counting_letters, evolve_counting_streets])
def test_derived_values_are_personal(broken_evolve: Evolve) -> None:
    with pytest.raises(BrokenLaw, match="evolve lets other values depend on personal values"):
        laws(cqrs.Decider(decide, broken_evolve, Customer()))


def test_evolve_accepts_redacted_values() -> None:
    with pytest.raises(BrokenLaw, match="evolve raised ZeroDivisionError"):
        laws(cqrs.Decider(decide, evolve_dividing_by_letters, Customer()))


def test_erased_aggregates_are_decided() -> None:
    with pytest.raises(BrokenLaw, match="decide raised LookupError: who"):
        laws(cqrs.Decider(decide_requiring_a_name, evolve, Customer()))


def test_classes_accept_redacted_values() -> None:
    with pytest.raises(BrokenLaw, match=r"Strict cannot be erased: .*ValueError: no name"):
        laws(cqrs.Decider(decide_strict, evolve_strict, Strict()))


def test_specification_applies_an_erasure() -> None:
    """Specifications fold an erasure to the redacted state as owners do, whether or not `evolve` handles the event."""
    ann = spec(customer.decider).given(Registered("Ann", "ann@home", "free"))
    assert ann.given(cqrs.Erased("a key")).state == Customer(plan="free")
    with pytest.raises(BrokenLaw, match="is not an event of this aggregate"):
        spec(tally.AGGREGATE.decider).given(cqrs.Erased("a key"))
