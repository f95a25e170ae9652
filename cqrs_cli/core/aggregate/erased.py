"""`Erased`: the reserved event that says that the personal fields of an aggregate are gone, and its fold."""

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from cqrs_cli.core.aggregate.decider import Event, State
from cqrs_cli.core.personal.masking import mask

#: Its type on the wire, the same for all aggregates.
ERASED = "cqrs.Erased"


class Erased(Event):
    """The personal fields of this aggregate were erased: the key with this id is gone, and with it what it sealed."""

    key: str


#: The event in its data; raises `ValueError` (msgspec's errors are) for any other data.
read_erased: Callable[[Raw | bytes], Erased] = msgspec.json.Decoder(Erased).decode


def with_erasing(evolve: Callable[[Any, Any], State], hears_erased: bool) -> Callable[[State, Event], State]:
    """`evolve`, and the fold of `Erased`: the masked state, which `evolve` is asked about if it takes the event.

    Personal values that it gives are dropped: there is no key for them.
    """

    def evolve_or_erase(state: State, event: Event) -> State:
        if type(event) is not Erased:
            return evolve(state, event)
        left = mask(state)
        if not hears_erased:
            return left
        after = evolve(left, event)
        return mask(after) if type(after) is type(left) else after  # the step refuses what is no state

    return evolve_or_erase
