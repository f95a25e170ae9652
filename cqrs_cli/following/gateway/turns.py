"""Run a blocking topic read for a request: in a thread, with bounded concurrency, cancelled on disconnect."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

from cqrs_cli.following.gateway.gateway import Gateway, Problem

_T = TypeVar("_T")

#: Cancellation check, which the work calls between two steps; raises `Problem` once the client has disconnected.
GoingOn = Callable[[], None]


async def in_turn(gateway: Gateway, request: Request, work: Callable[[GoingOn], _T]) -> _T:
    """Run `work` in a thread as soon as one of the read slots is free, and return its result.

    Raises `Problem` 400 if the client disconnects. The slot stays taken until the thread has ended. So the number of
    concurrent reads is bounded even if many clients disconnect.
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
        gone.set()  # also cancels the work when the server stops
        watching.cancel()
