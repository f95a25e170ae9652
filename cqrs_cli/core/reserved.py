"""The reserved commands, which cqrs decides itself, without the code of the aggregate."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.values import command_decoder
from cqrs_cli.core.deferral.requests import REQUESTS
from cqrs_cli.core.erasure import ERASE, Erase


class ReservedCommand(NamedTuple):
    """A reserved command. The CLI and clients can send every reserved command."""

    wire_type: str  # the type on the wire
    cls: type[Command]
    decode: Callable[[bytes], Command]
    erases: bool = False  # erases personal fields: only aggregates with personal fields accept it
    is_for_services: bool = False  # the gateway and process managers can send it, too

    def is_accepted_by(self, aggregate: Aggregate) -> bool:
        """True if the aggregate accepts the command."""
        return aggregate.has_personal_fields or not self.erases


#: The reserved commands by type.
RESERVED_COMMANDS: Mapping[str, ReservedCommand] = {
    **{
        wire_type: ReservedCommand(wire_type, cls, command_decoder(cls))
        for wire_type, cls in REQUESTS.items()
    },
    ERASE: ReservedCommand(ERASE, Erase, command_decoder(Erase), erases=True, is_for_services=True),
}

_BY_CLASS = {command.cls: command for command in RESERVED_COMMANDS.values()}


def reserved_command(cls: type) -> ReservedCommand | None:
    """Return the reserved command of a class; None for any other class."""
    return _BY_CLASS.get(cls)
