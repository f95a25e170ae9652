"""The project in examples/customers: an erased customer is also deleted from its read model."""

import importlib
from typing import Any

import pytest

import cqrs_cli as cqrs
from cqrs_cli import registry
from cqrs_cli.following.projections.load import load_projection
from cqrs_cli.settings.settings import load_settings
from cqrs_cli.testing import laws, projection, spec
from tests.support import ROOT

PROJECT = ROOT / "examples" / "customers"

ADA = ("Ada Byron", "ada@example.org", "GB")
NEW_ADDRESS = ("Elm Street 7", "IE")
ERASED = cqrs.Erased("AAAAAAAAAAA")


@pytest.fixture
def module() -> Any:
    """The module with the aggregate, as loaded by the project."""
    registry.load("customer", "customers", PROJECT)
    return importlib.import_module("customers.customer")


def test_customers_keep_the_laws(module: Any) -> None:
    laws(module.decider, examples=50)


def test_customers_register_once(module: Any) -> None:
    registered = spec(module.decider).when(module.Register(*ADA)).then(module.Registered(*ADA))
    registered.when(module.Register(*ADA)).unchanged()
    spec(module.decider).when(module.Register("Ada", "nowhere", "GB")).rejected(code="NO_MAIL")
    spec(module.decider).when(module.Move(*NEW_ADDRESS)).rejected(code="ABSENT")


def test_customers_move_and_leave(module: Any) -> None:
    registered = spec(module.decider).given(module.Registered(*ADA))
    moved_customer = registered.when(module.Move(*NEW_ADDRESS)).then(module.Moved(*NEW_ADDRESS))
    moved_customer.when(module.Move(*NEW_ADDRESS)).unchanged()
    moved_customer.when(module.Leave()).then(module.Left()).when(module.Leave()).unchanged()


def test_erased_customers_reject_commands(module: Any) -> None:
    erased = spec(module.decider).given(module.Registered(*ADA), module.Moved(*NEW_ADDRESS), ERASED)
    assert erased.state == module.Customer("erased", country="IE")
    for command in (module.Register(*ADA), module.Leave()):
        erased.when(command).rejected(code="ERASED")


@pytest.mark.parametrize("last_event", ["Erased", "Left"])
def test_mailing_list_deletes_customers(last_event: str) -> None:
    loaded_projection = load_projection("mailing_list", PROJECT, "customers")
    assert loaded_projection.event_names == ("Erased", "Left", "Moved", "Registered")
    module = importlib.import_module("customers.customer")
    table = loaded_projection.projection.metadata.tables["mailing_list"]
    bob = {"customer": "c-2", "name": "Bob Hope", "mail": "bob@example.org", "country": "IE"}
    state = projection(loaded_projection.projection).when(module.Registered(*ADA), aggregate_id="c-1")
    registered = module.Registered("Bob Hope", "bob@example.org", "US")
    state = state.when(registered, module.Moved(*NEW_ADDRESS), aggregate_id="c-2")
    state.when(ERASED if last_event == "Erased" else module.Left(), aggregate_id="c-1").rows(table, bob)


def test_keyring_is_not_in_the_repository() -> None:
    settings = load_settings({}, PROJECT)
    keys = settings.keys()
    assert keys is not None
    assert (settings.aggregates, keys.address, keys.root) == ("customers", "file:keys.json", PROJECT)
    assert "keys.json" in (PROJECT / ".gitignore").read_text().split()
