"""Ending a run from outside: fence each partition that is still its own, and leave a terminal claim.

The fence aborts an open transaction at once instead of after its timeout: until then nobody sees what lies behind it.
The terminal claim, of an attempt higher than any task's, tells a straggling owner to return quietly. A newer run that
is hit by the fence in a race judges it behind itself.
"""

import threading
import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any

from confluent_kafka import KafkaException

from cqrs_cli.errors import CqrsError
from cqrs_cli.kafka.clients import is_broken
from cqrs_cli.ownership.claim import Claim, parse_claim
from cqrs_cli.ownership.session import Session

#: Partitions that are retired at once.
WORKERS = 8

#: Tries to leave a claim.
_TRIES = 3

#: Given a position and the claim there, the claim to leave; None to leave it as it is.
ClaimChange = Callable[[int, Claim], Claim | None]


def retire_all(retirements: Iterable[Callable[[], None]], within: float) -> None:
    """Make these calls, some at a time. Those that have not returned after `within` s are left behind: without brokers
    a call may never return, and the transaction timeout ends what they could not.
    """
    waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
    for one in retirements:
        waiting.put(one)
    workers = [threading.Thread(target=_work, args=(waiting,), daemon=True) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    deadline = time.monotonic() + within
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))


def _work(waiting: "SimpleQueue[Callable[[], None]]") -> None:
    while True:
        try:
            retire = waiting.get_nowait()
        except Empty:
            return
        retire()


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
