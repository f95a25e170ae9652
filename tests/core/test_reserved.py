"""The table of reserved commands."""

import pytest

import cqrs_cli as cqrs
from aggregates import counter
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.reserved import RESERVED_COMMANDS, reserved_command
from tests.core.personal.customer import CUSTOMER

COUNTER = Aggregate.of("counter", counter.decider)


@pytest.mark.parametrize("kind", [cqrs.Cancel, cqrs.Release, cqrs.Erase])
def test_class_and_type_lead_to_it(kind: type[cqrs.Command]) -> None:
    found = reserved_command(kind)
    assert found is not None
    assert found.wire == f"cqrs.{kind.__name__}"
    assert RESERVED_COMMANDS[found.wire] is found
    data = b"{}" if kind is cqrs.Erase else b'{"id":"7"}'
    assert type(found.decode(data)) is kind


def test_others_are_not_in_it() -> None:
    assert reserved_command(counter.Reset) is None


def test_only_personal_aggregates_are_erased() -> None:
    def taking(aggregate: Aggregate) -> list[str]:
        return [one.wire for one in RESERVED_COMMANDS.values() if one.is_accepted_by(aggregate)]

    assert taking(CUSTOMER) == ["cqrs.Cancel", "cqrs.Release", "cqrs.Erase"]
    assert taking(COUNTER) == ["cqrs.Cancel", "cqrs.Release"]
