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
from cqrs_cli.core.erasure import ERASE, Erase, decide_erase
from cqrs_cli.core.messages.json import encode_json
from cqrs_cli.core.personal.message_redaction import redact_message
from cqrs_cli.core.reserved import RESERVED_COMMANDS
from cqrs_cli.testing import laws
from cqrs_cli.testing.strategies import messages_of
from tests.core.personal.customer import CUSTOMER, Customer, Ordered, Registered, decide, evolve

ERASED_DATA = encode_json(Erased("AAAAAAAAAAA"))
ANN = Customer("Ann", "ann@home", "free", {"Elm": 1}, 3)


def evolve_closing(customer: Customer, event: Registered | Ordered | Erased) -> Customer:
    """Close the customer when it is erased. The name `gone` must be redacted: no key can encrypt it any more."""
    if isinstance(event, Erased):
        return cqrs.replace(customer, plan=f"closed {customer.name}", name="gone")
    return evolve(customer, event)


def aggregate_with(evolve: Callable[..., Customer]) -> Aggregate:
    return Aggregate.of("customer", cqrs.Decider(decide, evolve, Customer()))


def test_erase_names_the_current_key() -> None:
    for command in (Erase(), Erase("AAAAAAAAAAA")):
        assert decide_erase(command, "AAAAAAAAAAA") == (Erased("AAAAAAAAAAA"),)


def test_erase_without_a_key_changes_nothing() -> None:
    assert decide_erase(Erase(), None) == ()


def test_erase_keeps_a_later_key() -> None:
    assert decide_erase(Erase("AAAAAAAAAAA"), "BBBBBBBBBBB") == ()


def test_erase_may_name_a_key() -> None:
    decode_erase = RESERVED_COMMANDS[ERASE].decode
    assert decode_erase(b"{}") == Erase()
    assert decode_erase(b'{"key":"AAAAAAAAAAA"}') == Erase("AAAAAAAAAAA")
    with pytest.raises(ValidationError, match="unknown field"):
        decode_erase(b'{"now":true}')


@given(messages_of([Customer]))
def test_erased_folds_to_the_redacted_state(customer: Customer) -> None:
    assert CUSTOMER.step(customer, ERASED, ERASED_DATA) == redact_message(customer)


def test_evolve_gets_the_redacted_state() -> None:
    assert aggregate_with(evolve_closing).step(ANN, ERASED, ERASED_DATA) == Customer(plan="closed ", amount=3)


def test_evolve_of_erased_must_return_a_state() -> None:
    def evolve_to_none(customer: Customer, event: Registered | Ordered | Erased) -> Customer:
        return None if isinstance(event, Erased) else customer  # type: ignore[return-value]

    with pytest.raises(TypeError, match="evolve returned NoneType, not Customer"):
        aggregate_with(evolve_to_none).step(ANN, ERASED, ERASED_DATA)


def test_reserved_event_is_not_of_the_aggregate() -> None:
    """`decide` cannot return an `Erased`, because `decide` knows no key."""
    aggregates = [CUSTOMER, aggregate_with(evolve_closing)]
    assert [aggregate.evolves_erased for aggregate in aggregates] == [False, True]
    assert all(
        list(aggregate.events) == ["customer.Registered", "customer.Ordered"] for aggregate in aggregates
    )
    assert not any(Erased in aggregate.event_types for aggregate in aggregates)


def test_evolve_of_erased_keeps_the_laws() -> None:
    laws(cqrs.Decider(decide, evolve_closing, Customer()), examples=50)


def test_erased_needs_personal_fields() -> None:
    assert ERASED not in Aggregate.of("counter", counter.decider).decode_event

    def evolve_erased(
        state: counter.Counter, event: counter.Incremented | counter.WasReset | Erased
    ) -> counter.Counter:
        return state

    with pytest.raises(InvalidAggregate, match="no field is personal"):
        Aggregate.of("counter", cqrs.Decider(counter.decide, evolve_erased, counter.Counter()))
