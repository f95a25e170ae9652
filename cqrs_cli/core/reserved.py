"""The reserved commands: cqrs decides them, not the code of aggregates."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from cqrs_cli.core.aggregate.aggregate import Aggregate
from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.deferral.requests import REQUESTS, Cancel, Release
from cqrs_cli.core.erasure import ERASE, Erase, decode_erase


class ReservedCommand(NamedTuple):
    """A command that cqrs decides. The CLI and clients send each of them."""

    wire: str  # its type
    cls: type[Command]
    decode: Callable[[bytes], Command]
    erases: bool = False  # only an aggregate with personal fields takes it
    handed_on: bool = False  # gateways and processes send it, too

    def taken_by(self, aggregate: Aggregate) -> bool:
        """True if the aggregate takes it."""
        return aggregate.has_personal_fields or not self.erases


#: All of them, by their types.
RESERVED_COMMANDS: Mapping[str, ReservedCommand] = {
    "cqrs.Cancel": ReservedCommand("cqrs.Cancel", Cancel, REQUESTS["cqrs.Cancel"]),
    "cqrs.Release": ReservedCommand("cqrs.Release", Release, REQUESTS["cqrs.Release"]),
    ERASE: ReservedCommand(ERASE, Erase, decode_erase, erases=True, handed_on=True),
}

_BY_CLASS = {one.cls: one for one in RESERVED_COMMANDS.values()}


def reserved_command(cls: type) -> ReservedCommand | None:
    """The reserved command of this class; None for any other class."""
    return _BY_CLASS.get(cls)
