"""Ending a run from outside: fence each partition that is still its own, and leave a terminal claim.

The fence aborts an open transaction at once instead of after its timeout: until then nobody sees what lies behind it.
The terminal claim, of an attempt higher than any task's, tells a straggling owner to return quietly. A newer run that
is hit by the fence in a race judges it behind itself.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from confluent_kafka import KafkaException

from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.clients import is_broken
from cqrs_cli.kafka.connection.cluster import Cluster
from cqrs_cli.ownership.claim import Claim, parse_claim, terminal
from cqrs_cli.ownership.session import Session
from cqrs_cli.ownership.standing import Seat, Standings
from cqrs_cli.system.together import call_together

#: Tries to leave a claim.
_TRIES = 3

_P = TypeVar("_P")

#: Given a position and the claim there, the claim to leave; None to leave it as it is.
ClaimChange = Callable[[int, Claim], Claim | None]


def retire_places(
    connection: Cluster, seats: Mapping[_P, Seat], run: str, retire: Callable[[_P], None], within: float
) -> None:
    """Retire the places that are still the run's, some at a time, for so many seconds at most.

    Their claims say which: a fence needs clients of its own, and a run that stood by has nothing to end.
    """
    places: Iterable[_P] = seats
    with suppress(CqrsError), Standings(connection, seats) as reader:
        places = [place for place, one in reader.look().items() if terminal(one.claim, run)]
    call_together((partial(retire, place) for place in places), within)


def leave_claim(begin: Callable[[], Session[Any]], change: ClaimChange) -> None:
    """Fence a partition's owner and replace its claim by what `change` makes of the position and the claim.

    It is asked before and after the fence, which may let a last commit through; None leaves the claim as it is. Without
    a broker nothing happens. An owner that begins again before it can see the new claim fences us: then we try again.
    """
    for _ in range(_TRIES):
        try:
            with begin() as session:
                _leave(session, change)
            return
        except KafkaException as error:
            if not is_broken(error):
                return  # no broker: there is nothing left to end
        except CqrsError:
            return


def _leave(session: Session[Any], change: ClaimChange) -> None:
    seen = session.committed_by(session.watcher)
    claim = parse_claim(seen.metadata)
    if claim is None or seen.offset is None or change(seen.offset, claim) is None:
        return  # a newer run has it
    session.writer.fence()
    found = session.found()
    last = None if found is None else change(*found)
    if found is not None and last is not None:
        session.leave(found[0], last)
