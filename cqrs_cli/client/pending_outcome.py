"""The pending outcome of a command: the caller of `Client` waits for it, the background thread completes it."""

import asyncio
import time
from collections.abc import Generator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any

from cqrs_cli.client.command_outcome import CommandOutcome
from cqrs_cli.client.envelope import ReadyCommand
from cqrs_cli.errors import CqrsError, NoOutcomeError
from cqrs_cli.kafka.topics.topics import Topics
from cqrs_cli.observer import reached
from cqrs_cli.telemetry.otel.spans import Sending


class PendingOutcome:
    """A command whose outcome is pending. `wait()` returns the outcome; in asyncio, `await` this object.

    `id` is the command id. It is safe to send the command again with this id.
    """

    def __init__(
        self, ready_command: ReadyCommand, topics: Topics, timeout: float, sending: Sending | None = None
    ) -> None:
        """`timeout`: seconds to wait for the outcome. `sending`: the span of the command; None without tracing."""
        self._sending = sending
        self.ready_command, self.topics = ready_command, topics
        self.deadline = time.monotonic() + timeout
        self._outcome: Future[CommandOutcome] = Future()
        self.failure: CqrsError | None = None  # the error of a failed attempt to send the command
        self._timeout = timeout

    @property
    def id(self) -> str:
        return self.ready_command.id

    def done(self) -> bool:
        """True if the outcome has arrived, or the command cannot be sent."""
        return self._outcome.done()

    def wait(self, timeout: float | None = None) -> CommandOutcome:
        """Return the outcome; wait at most `timeout` seconds, by default until the command's own timeout.

        Raises `NoOutcomeError` if no outcome has arrived, or the `CqrsError` that prevented sending.
        """
        seconds = self._seconds_left() if timeout is None else timeout
        try:
            return self._outcome.result(seconds)
        except FutureTimeout:
            raise self._timeout_error(self._timeout if timeout is None else timeout) from None

    def complete(self, outcome: CommandOutcome) -> None:
        """Complete with an outcome."""
        if not self._outcome.done():
            self._end_span(outcome.status)
            self._outcome.set_result(outcome)

    def fail(self, error: CqrsError) -> None:
        """Complete with an error: there will be no outcome."""
        if not self._outcome.done():
            self._end_span(error.code)
            self._outcome.set_exception(error)

    def expire(self) -> None:
        """End the span, because the callers no longer wait."""
        self._end_span(NoOutcomeError.code)

    def _end_span(self, status: str) -> None:
        sending, self._sending = self._sending, None
        if sending is not None:
            command, topic = self.ready_command, self.topics.commands
            reached(
                "send.after", sending=sending, id=command.id, topic=topic, key=command.subject, status=status
            )

    def __await__(self) -> Generator[Any, None, CommandOutcome]:
        return self._wait_async().__await__()

    async def _wait_async(self) -> CommandOutcome:
        future = asyncio.wrap_future(self._outcome)
        future.add_done_callback(_retrieve_exception)
        ended_futures, _ = await asyncio.wait([future], timeout=self._seconds_left())
        if not ended_futures:
            raise self._timeout_error(self._timeout)
        return future.result()

    def _seconds_left(self) -> float:
        return max(0.0, self.deadline - time.monotonic())

    def _timeout_error(self, timeout: float) -> CqrsError:
        if self.failure is not None:
            return type(self.failure)(
                f"{self.failure.message}; the command {self.id} may not have been sent", self.failure.hint
            )
        return NoOutcomeError(
            f"no outcome of command {self.id} within {timeout:g} s; it may still be decided",
            "check that `cqrs run` decides this aggregate; sending the command again with its id is safe",
            {"id": self.id},
        )


def _retrieve_exception(future: "asyncio.Future[CommandOutcome]") -> None:
    """Retrieve the exception of a future after its timeout: asyncio logs every exception that was not retrieved."""
    if not future.cancelled():
        future.exception()
