"""`Cancel` and `Release`: reserved commands about a deferred command, which every aggregate accepts."""

from collections.abc import Callable

from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.values import command_decoder


class Cancel(Command):
    """Cancel the deferred command with this id: its final outcome is `rejected`, `CANCELLED`."""

    id: str


class Release(Command):
    """Decide the deferred command with this id now."""

    id: str


#: Wire type → decoder of the command's data.
REQUESTS: dict[str, Callable[[bytes], Command]] = {
    "cqrs.Cancel": command_decoder(Cancel),
    "cqrs.Release": command_decoder(Release),
}
