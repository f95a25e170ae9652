"""`Cancel` and `Release`: commands about a deferred command, which every aggregate takes."""

from collections.abc import Callable

from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.values import command_decoder


class Cancel(Command):
    """Do not decide the deferred command with this id: it ends `rejected`, `CANCELLED`."""

    id: str


class Release(Command):
    """Decide the deferred command with this id now."""

    id: str


#: The reserved types.
REQUESTS: dict[str, Callable[[bytes], Command]] = {
    "cqrs.Cancel": command_decoder(Cancel),
    "cqrs.Release": command_decoder(Release),
}
