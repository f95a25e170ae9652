"""`Erased`, the reserved event after an erasure of an aggregate's personal fields, and its folding."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from cqrs_cli.core.aggregate.decider import Event, State

#: The type of the event on the wire, equal for all aggregates.
ERASED = "cqrs.Erased"


class Erased(Event):
    """The personal fields of this aggregate were erased: the data key with the id `key` was deleted."""

    key: str


#: Decodes the data of an `Erased`; raises `ValueError`, or a subclass that msgspec defines, for any other data.
read_erased: Callable[[Raw | bytes], Erased] = msgspec.json.Decoder(Erased).decode


def with_erasure(
    evolve: Callable[[Any, Any], State], evolves_erased: bool, redact: Callable[[State], State]
) -> Callable[[State, Event], State]:
    """Return a function like `evolve` that also folds `Erased`, by redacting the state.

    If `evolve` accepts the event (`evolves_erased`), it is called with the redacted state, and its result is redacted,
    too, because there is no key for new personal values.
    """

    def evolve_or_erase(state: State, event: Event) -> State:
        if type(event) is not Erased:
            return evolve(state, event)
        redacted = redact(state)
        if not evolves_erased:
            return redacted
        next_state = evolve(redacted, event)
        if type(next_state) is not type(redacted):
            return next_state  # not a state: `Aggregate.step` raises `TypeError`
        return redact(next_state)

    return evolve_or_erase
