"""`Erase`: the reserved command that erases the personal fields of an aggregate, and its decision."""

from cqrs_cli.core.aggregate.decider import Command
from cqrs_cli.core.aggregate.erased import Erased

#: The type of the command on the wire.
ERASE = "cqrs.Erase"


class Erase(Command, omit_defaults=True):
    """Erase all personal fields of this aggregate, in its state, its events and its deferred commands.

    The aggregate continues, and gets a new data key for new personal data. `key` is the id of the data key to delete.
    If the aggregate has another data key, nothing is erased. Without `key`, the present data key is deleted.
    """

    key: str | None = None


def decide_erase(command: Erase, key: str | None) -> tuple[Erased, ...]:
    """Return the events of an `Erase`; `key` is the id of the aggregate's present data key.

    The result is empty, and the outcome `unchanged`, if the aggregate has no key (then no value is encrypted), or if
    the command names another key. An aggregate with a key gets an event even if it has no event yet, because a
    deferred command may be encrypted with the key.
    """
    return () if key is None or command.key not in (None, key) else (Erased(key),)
