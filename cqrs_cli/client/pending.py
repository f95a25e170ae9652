"""Commands on their way: what a program holds, and what the thread that sends them does."""

import asyncio
import time
from collections.abc import Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from cqrs_cli.client.command_outcome import CommandOutcome
from cqrs_cli.client.envelope import Composed
from cqrs_cli.errors import CqrsError, NoOutcomeError
from cqrs_cli.kafka.topics.topics import Topics


class PendingOutcome:
    """A command that is being sent. `wait()` gives its outcome; in asyncio `await` it.

    `id` is the command's: to send the command again with the same id is safe.
    """

    def __init__(self, composed: Composed, topics: Topics, timeout: float) -> None:
        self.composed, self.topics = composed, topics
        self.deadline = time.monotonic() + timeout
        self._outcome: Future[CommandOutcome] = Future()
        self.failure: CqrsError | None = None  # why it was not sent when it was tried last
        self._timeout = timeout

    @property
    def id(self) -> str:
        return self.composed.id

    def done(self) -> bool:
        """True once the outcome is there, or the command cannot be sent."""
        return self._outcome.done()

    def wait(self, timeout: float | None = None) -> CommandOutcome:
        """The outcome; waits for `timeout` seconds, if none is given for what the command has left.

        Raises `NoOutcomeError` if there is none by then, or the `CqrsError` for which the command could not be sent.
        """
        left = self._left() if timeout is None else timeout
        try:
            return self._outcome.result(left)
        except FutureTimeout:
            raise self._overdue(self._timeout if timeout is None else timeout) from None

    def arrive(self, outcome: CommandOutcome) -> None:
        """The outcome has arrived."""
        if not self._outcome.done():
            self._outcome.set_result(outcome)

    def fail(self, error: CqrsError) -> None:
        """There will be no outcome."""
        if not self._outcome.done():
            self._outcome.set_exception(error)

    def __await__(self) -> Generator[Any, None, CommandOutcome]:
        return self._awaited().__await__()

    async def _awaited(self) -> CommandOutcome:
        arrived = asyncio.wrap_future(self._outcome)
        arrived.add_done_callback(_take_notice)
        done, _ = await asyncio.wait([arrived], timeout=self._left())
        if not done:
            raise self._overdue(self._timeout)
        return arrived.result()

    def _left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def _overdue(self, timeout: float) -> CqrsError:
        if self.failure is not None:
            return type(self.failure)(
                f"{self.failure.message}; the command {self.id} may not have been sent", self.failure.hint
            )
        return NoOutcomeError(
            f"no outcome of command {self.id} within {timeout:g} s; it may still be decided",
            "does `cqrs run` own its topics? To send it again with the same id is safe",
            {"id": self.id},
        )


def _take_notice(arrived: "asyncio.Future[CommandOutcome]") -> None:
    """Look at the error of one whose time is up: asyncio logs each that nobody has looked at."""
    if not arrived.cancelled():
        arrived.exception()
