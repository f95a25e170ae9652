"""Erasing: its decision, and its fold."""

from collections.abc import Callable

import pytest
from hypothesis import given
from msgspec import ValidationError

import cqrs_cli as cqrs
from aggregates import counter
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.erased import ERASED, Erased
from cqrs_cli.core.aggregate.errors import InvalidAggregate
from cqrs_cli.core.erasure import Erase, decide_erase, decode_erase
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.masking import mask
from cqrs_cli.testing import laws
from cqrs_cli.testing.strategies import messages_of
from tests.core.personal.customer import CUSTOMER, Customer, Ordered, Registered, decide, evolve

GONE = encode_json(Erased("AAAAAAAAAAA"))
ANN = Customer("Ann", "ann@home", "free", {"Elm": 1}, 3)


def closing(customer: Customer, event: Registered | Ordered | Erased) -> Customer:
    """Close the customer when it is erased. The new name has no key."""
    if isinstance(event, Erased):
        return cqrs.replace(customer, plan=f"closed {customer.name}", name="gone")
    return evolve(customer, event)


def folding(fold: Callable[..., Customer]) -> Aggregate:
    return Aggregate.of("customer", cqrs.Decider(decide, fold, Customer()))


def test_erase_names_the_key_that_it_ends() -> None:
    for command in (Erase(), Erase("AAAAAAAAAAA")):
        assert decide_erase(command, "AAAAAAAAAAA") == (Erased("AAAAAAAAAAA"),)


def test_erase_without_a_key_changes_nothing() -> None:
    assert decide_erase(Erase(), None) == ()


def test_erase_spares_a_later_key() -> None:
    assert decide_erase(Erase("AAAAAAAAAAA"), "BBBBBBBBBBB") == ()


def test_erase_may_name_a_key() -> None:
    assert decode_erase(b"{}") == Erase()
    assert decode_erase(b'{"key":"AAAAAAAAAAA"}') == Erase("AAAAAAAAAAA")
    with pytest.raises(ValidationError, match="unknown field"):
        decode_erase(b'{"now":true}')


@given(messages_of([Customer]))
def test_erased_folds_to_the_mask(customer: Customer) -> None:
    assert CUSTOMER.step(customer, ERASED, GONE) == mask(customer)


def test_evolve_is_asked_about_the_mask() -> None:
    assert folding(closing).step(ANN, ERASED, GONE) == Customer(plan="closed ", amount=3)


def test_evolve_must_give_a_state_then_too() -> None:
    def forgetting(customer: Customer, event: Registered | Ordered | Erased) -> Customer:
        return None if isinstance(event, Erased) else customer  # type: ignore[return-value]

    with pytest.raises(TypeError, match="evolve returned NoneType, not Customer"):
        folding(forgetting).step(ANN, ERASED, GONE)


def test_reserved_event_is_not_of_the_aggregate() -> None:
    """`decide` cannot return it, because `decide` knows no key."""
    both = [CUSTOMER, folding(closing)]
    assert [one.evolves_erased for one in both] == [False, True]
    assert all(list(one.events) == ["customer.Registered", "customer.Ordered"] for one in both)
    assert not any(Erased in one.event_types for one in both)


def test_hearing_the_event_keeps_the_laws() -> None:
    laws(cqrs.Decider(decide, closing, Customer()), examples=50)


def test_only_personal_aggregates_know_it() -> None:
    assert ERASED not in Aggregate.of("counter", counter.decider).decode_event

    def hearing(
        state: counter.Counter, event: counter.Incremented | counter.WasReset | Erased
    ) -> counter.Counter:
        return state

    with pytest.raises(InvalidAggregate, match="no field is personal"):
        Aggregate.of("counter", cqrs.Decider(counter.decide, hearing, counter.Counter()))
