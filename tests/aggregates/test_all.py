"""Rules for every aggregate of the project, also for aggregates added later."""

import importlib

import pytest

from cqrs_cli import registry
from cqrs_cli.testing import check_laws
from tests.support import ROOT

NAMES = registry.names("aggregates", ROOT)


def test_registry_has_the_aggregates() -> None:
    assert {"bank_account", "counter", "order", "payment", "reservation", "sensor"} <= set(NAMES)


@pytest.mark.program
@pytest.mark.parametrize("name", NAMES)
def test_aggregate_keeps_the_laws(name: str) -> None:
    check_laws(importlib.import_module(f"aggregates.{name}"))


@pytest.mark.parametrize("name", NAMES)
def test_file_is_short_and_ordered(name: str) -> None:
    source = (ROOT / "aggregates" / f"{name}.py").read_text()
    order = [
        "(cqrs.Command)",
        "(cqrs.Event)",
        "(cqrs.State)",
        "def decide(",
        "def evolve(",
        "decider = cqrs.Decider(",
    ]
    assert [source.index(part) for part in order] == sorted(source.index(part) for part in order)
    assert source.rindex("(cqrs.Command)") < source.index("(cqrs.Event)")
    assert source.rindex("(cqrs.Event)") < source.index("(cqrs.State)")
    assert len(source.splitlines()) <= 150


@pytest.mark.parametrize("name", NAMES)
def test_docstring_names_the_storage_format(name: str) -> None:
    doc = importlib.import_module(f"aggregates.{name}").__doc__
    assert doc
    assert "storage format" in doc


def test_stored_events_keep_their_fields() -> None:
    """A removed or renamed field makes existing logs unreadable. Fields may be added."""
    stored = {
        kind: event.__struct_fields__
        for name in ("bank_account", "counter", "order", "payment", "reservation", "sensor")
        for kind, event in registry.load(name, "aggregates", ROOT).events.items()
    }
    assert stored == {
        "bank_account.Opened": ("owner",),
        "bank_account.Deposited": ("amount",),
        "bank_account.Withdrawn": ("amount",),
        "bank_account.Closed": (),
        "counter.Incremented": ("by",),
        "counter.WasReset": ("to",),
        "order.Placed": ("customer",),
        "order.LineAdded": ("sku", "quantity"),
        "order.LineRemoved": ("sku",),
        "order.Shipped": (),
        "order.Cancelled": ("reason",),
        "order.Deleted": (),
        "payment.Requested": ("customer",),
        "payment.Paid": ("reference",),
        "payment.CalledOff": (),
        "reservation.Held": ("guest", "until"),
        "reservation.Bought": ("guest",),
        "sensor.Configured": ("window",),
        "sensor.Recorded": ("value",),
    }
