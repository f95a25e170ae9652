"""The table of reserved commands."""

import pytest

import cqrs_cli as cqrs
from aggregates import counter
from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.reserved import RESERVED_COMMANDS, reserved_command
from tests.core.personal.customer import CUSTOMER

COUNTER = Aggregate.of("counter", counter.decider)


@pytest.mark.parametrize("command_class", [cqrs.Cancel, cqrs.Release, cqrs.Erase])
def test_reserved_commands_have_class_and_type(command_class: type[cqrs.Command]) -> None:
    reserved = reserved_command(command_class)
    assert reserved is not None
    assert reserved.wire_type == f"cqrs.{command_class.__name__}"
    assert RESERVED_COMMANDS[reserved.wire_type] is reserved
    data = b"{}" if command_class is cqrs.Erase else b'{"id":"7"}'
    assert type(reserved.decode(data)) is command_class


def test_ordinary_commands_are_not_reserved() -> None:
    assert reserved_command(counter.Reset) is None


def test_only_personal_aggregates_are_erased() -> None:
    def accepted_types(aggregate: Aggregate) -> list[str]:
        return [
            reserved.wire_type
            for reserved in RESERVED_COMMANDS.values()
            if reserved.is_accepted_by(aggregate)
        ]

    assert accepted_types(CUSTOMER) == ["cqrs.Cancel", "cqrs.Release", "cqrs.Erase"]
    assert accepted_types(COUNTER) == ["cqrs.Cancel", "cqrs.Release"]
