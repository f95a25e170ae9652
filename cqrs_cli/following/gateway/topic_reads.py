"""Runs the blocking topic read of a request: in a thread, with bounded concurrency, cancelled on disconnect."""

import asyncio
import threading
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

from cqrs_cli.following.gateway.gateway import Gateway, Problem

_Result = TypeVar("_Result")

#: Cancellation check, which a read calls between two steps; raises `Problem` once the client has disconnected.
CancelCheck = Callable[[], None]


async def run_read(
    gateway: Gateway, request: Request, read_topic: Callable[[CancelCheck], _Result]
) -> _Result:
    """Run `read_topic` in a thread as soon as one of the read slots is free, and return its result.

    Raises `Problem` 400 if the client disconnects. The slot stays taken until the thread has ended. So the number of
    concurrent reads is bounded even if many clients disconnect.
    """
    cancelled = threading.Event()

    def check_cancelled() -> None:
        if cancelled.is_set():
            raise Problem(400, "the client disconnected")

    async def watch_disconnect() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        cancelled.set()

    def read() -> _Result:
        check_cancelled()
        return read_topic(check_cancelled)

    watcher = asyncio.create_task(watch_disconnect())
    try:
        async with gateway.read_slots:
            return await asyncio.to_thread(read)
    finally:
        cancelled.set()  # also cancels the read when the server stops
        watcher.cancel()
