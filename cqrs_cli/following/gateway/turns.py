"""Work on a topic for one request: in another thread, a few at a time, and given up with the client."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

from cqrs_cli.following.gateway.gateway import Gateway, Problem

_T = TypeVar("_T")

#: Called between two steps of the work; raises `Problem` if nobody waits for it any more.
GoingOn = Callable[[], None]


async def in_turn(gateway: Gateway, request: Request, work: Callable[[GoingOn], _T]) -> _T:
    """The result of the work, once it is its turn. Raises `Problem` if the client has gone meanwhile.

    The turn lasts until the thread has ended: no more than a few read at a time, however many clients go.
    """
    gone = threading.Event()

    def going_on() -> None:
        if gone.is_set():
            raise Problem(400, "the client went away")

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        gone.set()

    def begin() -> _T:
        going_on()
        return work(going_on)

    watching = asyncio.create_task(watch())
    try:
        async with gateway.readings:
            return await asyncio.to_thread(begin)
    finally:
        gone.set()  # if the server stops, too
        watching.cancel()
