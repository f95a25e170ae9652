"""Tests aggregates without a broker or Spark: given, when, then, and the laws that every aggregate must keep.

from cqrs_cli.testing import check_laws, spec

def test_never_overdrawn() -> None:
    spec(decider).given(Opened("ann"), Deposited(5)).when(Withdraw(7)).rejected(code="OVERDRAWN")

def test_keeps_the_laws() -> None:
    check_laws(bank_account)  # the module; needs hypothesis

def test_placing_asks_for_payment() -> None:
    process(checkout.process).when(Placed("ann")).sends(Send("payment", "id-1", Request("ann")))

def test_orders_are_counted() -> None:
    projection(counts.projection).when(Placed("ann")).rows(counts.table, {"customer": "ann", "orders": 1})
"""

from cqrs_cli.testing.laws import check_laws, laws
from cqrs_cli.testing.process import ProcessSpec, Reaction, process
from cqrs_cli.testing.projection import ProjectionSpec, projection
from cqrs_cli.testing.round_trip import BrokenLaw
from cqrs_cli.testing.spec import Outcome, Spec, spec

__all__ = [
    "BrokenLaw",
    "Outcome",
    "ProcessSpec",
    "ProjectionSpec",
    "Reaction",
    "Spec",
    "check_laws",
    "laws",
    "process",
    "projection",
    "spec",
]
