"""An aggregate is created from its decider, or refused."""

import msgspec
import pytest

import cqrs_cli as cqrs
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.errors import InvalidAggregate


class Crate(msgspec.Struct, frozen=True, omit_defaults=True):
    lid: bool = False


class Take(cqrs.Command):
    pass


class Taken(cqrs.Event):
    crate: Crate


class Stock(cqrs.State):
    pass


def decide(command: Take, stock: Stock) -> list[Taken]:
    return []


def evolve(stock: Stock, event: Taken) -> Stock:
    return stock


def test_event_that_loses_fields_is_refused() -> None:
    with pytest.raises(
        InvalidAggregate,
        match="Crate has omit_defaults: a new default would change the meaning of stored Taken",
    ):
        Aggregate.of("stock", cqrs.Decider(decide, evolve, Stock()))
