"""`Erase`: the reserved command that erases the personal fields of an aggregate, and its decision."""

from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.erased import Erased
from cqrs_cli.core.aggregate.values import command_decoder

#: Its type on the wire.
ERASE = "cqrs.Erase"


class Erase(Command):
    """Erase all personal fields of this aggregate, in its state, its events and its deferred commands.

    It goes on without them, and gets another key if personal data come again.
    """


decode_erase = command_decoder(Erase)


def decide_erase(key: str | None) -> tuple[Erased, ...]:
    """The events of an `Erase`; `key` is the id of the aggregate's key in force.

    Without a key nothing is sealed: the command is `unchanged`. With one the event is written even if it is the first:
    a deferred command may have needed the key.
    """
    return () if key is None else (Erased(key),)
