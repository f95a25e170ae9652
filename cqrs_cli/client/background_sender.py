"""The thread of `Client`: it sends commands, resends commands after a lost connection, and receives outcomes."""

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import NamedTuple

from cqrs_cli.client.command_outcome import CommandOutcome
from cqrs_cli.client.outcomes import OutcomeWaiter
from cqrs_cli.client.pending_outcome import PendingOutcome
from cqrs_cli.client.producer import CommandProducer
from cqrs_cli.errors import CqrsError, NoOutcomeError, PayloadUnavailableError, UnavailableError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import Partitioner

#: Maximum seconds to wait for outcomes, while some are pending, before new commands are sent.
_POLL_INTERVAL = 0.005

#: Maximum seconds to wait for new commands while no outcome is pending. The consumer is polled then, too: otherwise the
#: outcomes of other clients would pile up.
_IDLE_POLL_INTERVAL = 0.05

#: Seconds between two checks for expired commands, and between two attempts to reach a lost broker.
_RETRY_INTERVAL = 1.0


class UnsentCommands(NamedTuple):
    """The commands that could not be sent."""

    command_count: int = 0
    first_id: str = ""  # id of the first of these commands; empty if there is none


class BackgroundSender:
    """Sends commands and receives their outcomes, in a thread of its own.

    A resent command keeps its id, so it is decided once, however often it is sent.
    """

    def __init__(self, connection: Connection, partitioner: Partitioner) -> None:
        self._connection, self._partitioner = connection, partitioner
        self._submissions: SimpleQueue[PendingOutcome | None] = SimpleQueue()  # None: close
        self._pending: dict[int, PendingOutcome] = {}  # sent commands without an outcome, by command number
        self._to_send: list[PendingOutcome] = []  # commands to send with the next connection
        self._unsent = UnsentCommands()
        self._is_closing = False
        self._must_reconnect = False  # True after the broker did not take a command
        self._was_connected = False  # True after the first answer of a broker
        self._expiry_checked_at = 0.0
        self._thread = threading.Thread(target=self._run, name="cqrs client", daemon=True)
        self._thread.start()

    def submit(self, command: PendingOutcome) -> None:
        """Queue a command for sending."""
        self._submissions.put(command)

    def close(self) -> UnsentCommands:
        """Wait until all commands are in the log, then stop. Return the commands that could not be sent."""
        self._submissions.put(None)
        self._thread.join()
        for command in self._pending.values():
            command.fail(
                NoOutcomeError(
                    f"the client was closed before command {command.id} had an outcome",
                    "sending it again with the same id is safe",
                )
            )
        return self._unsent

    def _run(self) -> None:
        while not self._is_closing or self._to_send:
            try:
                with (
                    CommandProducer(self._connection, self._partitioner) as producer,
                    OutcomeWaiter(self._connection, producer) as waiter,
                ):
                    self._send_and_receive(producer, waiter)
            except CqrsError as error:
                self._keep_for_retry(error)
            except Exception as bug:  # without an error, callers would wait for ever
                self._keep_for_retry(CqrsError(f"{type(bug).__name__}: {bug}"))
            if self._to_send:
                time.sleep(_RETRY_INTERVAL)
                self._fail_hopeless(lambda command: command.deadline < time.monotonic())

    def _send_and_receive(self, producer: CommandProducer, waiter: OutcomeWaiter) -> None:
        """Send commands and receive outcomes until the client closes. Raises `UnavailableError` if the connection is
        lost.
        """
        self._must_reconnect = False
        while not self._must_reconnect:
            self._to_send += self._take_submitted(
                0.0 if self._pending or self._to_send else _IDLE_POLL_INTERVAL
            )
            while self._to_send:
                self._send(waiter, self._to_send.pop(0))
            if self._is_closing:
                producer.flush()
                self._complete_pending(waiter, 0.0)
                break
            producer.poll()
            self._complete_pending(waiter, _POLL_INTERVAL if self._pending else 0.0)
            self._forget_expired(waiter)
        if self._must_reconnect:
            raise UnavailableError("a command was not delivered")

    def _take_submitted(self, timeout: float) -> list[PendingOutcome]:
        """Remove and return the submitted commands; wait at most `timeout` seconds for the first command."""
        commands: list[PendingOutcome] = []
        try:
            while not self._is_closing:
                must_wait = timeout > 0 and not commands
                command = self._submissions.get(block=must_wait, timeout=timeout if must_wait else None)
                if command is None:
                    self._is_closing = True
                else:
                    commands.append(command)
        except Empty:
            pass
        return commands

    def _send(self, waiter: OutcomeWaiter, command: PendingOutcome) -> None:
        def on_failure(error: CqrsError) -> None:
            if isinstance(error, UnavailableError):
                command.failure, self._must_reconnect = error, True
                return
            for number in [number for number, pending in self._pending.items() if pending is command]:
                waiter.forget(number)
                self._pending.pop(number).expire()
            self._fail(command, error)

        ready_command = command.ready_command
        key = ready_command.subject.encode()
        try:
            number = waiter.send(command.topics, key, ready_command.value, ready_command.id, on_failure)
        except PayloadUnavailableError as error:  # the broker answers, so other commands can be sent
            self._fail(command, error)
            return
        except UnavailableError:
            self._to_send.insert(0, command)  # keep the order
            raise
        except CqrsError as error:
            self._fail(command, error)
            return
        self._was_connected = True
        self._pending[number] = command

    def _fail(self, command: PendingOutcome, error: CqrsError) -> None:
        self._unsent = UnsentCommands(self._unsent.command_count + 1, self._unsent.first_id or command.id)
        command.fail(error)

    def _complete_pending(self, waiter: OutcomeWaiter, timeout: float) -> None:
        for outcome in waiter.poll_outcomes(timeout):
            command = self._pending.pop(outcome.number)
            command.complete(CommandOutcome.from_record(outcome.envelope, command.ready_command))

    def _forget_expired(self, waiter: OutcomeWaiter) -> None:
        """Stop waiting for the outcomes of commands whose deadline has passed: their callers no longer wait."""
        now = time.monotonic()
        if now - self._expiry_checked_at > _RETRY_INTERVAL:
            self._expiry_checked_at = now
            for number in [number for number, command in self._pending.items() if command.deadline < now]:
                waiter.forget(number)
                del self._pending[number]

    def _keep_for_retry(self, error: CqrsError) -> None:
        """Keep the commands without an outcome, to send them with the next connection. If no broker has ever answered,
        or if a retry cannot help, fail them with `error`.
        """
        self._to_send += self._pending.values()
        self._pending = {}
        for command in self._to_send:
            command.failure = command.failure or error
        if not (self._was_connected and isinstance(error, UnavailableError)):
            self._fail_hopeless(lambda command: True)

    def _fail_hopeless(self, is_hopeless: Callable[[PendingOutcome], bool]) -> None:
        """Fail the commands for which `is_hopeless` is True, and keep the others for the next connection."""
        remaining_commands: list[PendingOutcome] = []
        for command in self._to_send:
            if not is_hopeless(command):
                remaining_commands.append(command)
            elif command.failure is not None:
                self._fail(command, command.failure)
        self._to_send = remaining_commands
