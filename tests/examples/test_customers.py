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
MOVED = ("Elm Street 7", "IE")
ERASED = cqrs.Erased("AAAAAAAAAAA")


@pytest.fixture
def shop() -> Any:
    """The module with the aggregate, as loaded by the project."""
    registry.load("customer", "customers", PROJECT)
    return importlib.import_module("customers.customer")


def test_customers_keep_the_laws(shop: Any) -> None:
    laws(shop.decider, examples=50)


def test_customers_register_once(shop: Any) -> None:
    there = spec(shop.decider).when(shop.Register(*ADA)).then(shop.Registered(*ADA))
    there.when(shop.Register(*ADA)).unchanged()
    spec(shop.decider).when(shop.Register("Ada", "nowhere", "GB")).rejected(code="NO_MAIL")
    spec(shop.decider).when(shop.Move(*MOVED)).rejected(code="ABSENT")


def test_customers_move_and_leave(shop: Any) -> None:
    there = spec(shop.decider).given(shop.Registered(*ADA))
    moved = there.when(shop.Move(*MOVED)).then(shop.Moved(*MOVED))
    moved.when(shop.Move(*MOVED)).unchanged()
    moved.when(shop.Leave()).then(shop.Left()).when(shop.Leave()).unchanged()


def test_erased_customers_stay_away(shop: Any) -> None:
    erased = spec(shop.decider).given(shop.Registered(*ADA), shop.Moved(*MOVED), ERASED)
    assert erased.state == shop.Customer("erased", country="IE")
    for command in (shop.Register(*ADA), shop.Leave()):
        erased.when(command).rejected(code="ERASED")


@pytest.mark.parametrize("end", ["Erased", "Left"])
def test_mailing_list_forgets(end: str) -> None:
    loaded = load_projection("mailing_list", PROJECT, "customers")
    assert loaded.event_names == ("Erased", "Left", "Moved", "Registered")
    shop = importlib.import_module("customers.customer")
    readers = loaded.projection.metadata.tables["mailing_list"]
    bob = {"customer": "c-2", "name": "Bob Hope", "mail": "bob@example.org", "country": "IE"}
    there = projection(loaded.projection).when(shop.Registered(*ADA), aggregate_id="c-1")
    registered = shop.Registered("Bob Hope", "bob@example.org", "US")
    there = there.when(registered, shop.Moved(*MOVED), aggregate_id="c-2")
    there.when(ERASED if end == "Erased" else shop.Left(), aggregate_id="c-1").rows(readers, bob)


def test_the_ring_is_no_part_of_it() -> None:
    settings = load_settings({}, PROJECT)
    keys = settings.keys()
    assert keys is not None
    assert (settings.aggregates, keys.address, keys.root) == ("customers", "file:keys.json", PROJECT)
    assert "keys.json" in (PROJECT / ".gitignore").read_text().split()
