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
from cqrs_cli.errors import CqrsError, NoOutcomeError, UnavailableError
from cqrs_cli.kafka.connection.connection import Connection
from cqrs_cli.kafka.topics.partitioner import Partitioner
from cqrs_cli.payloads.address import PayloadUnavailableError

#: Seconds between two checks for new commands while outcomes are pending.
_LOOK_EVERY = 0.005

#: Seconds between two polls while no outcome is pending. Without polls the outcomes of other clients would pile up.
_IDLE = 0.05

#: Seconds between two checks for expired commands, and between two attempts to reach a lost broker.
_TIDY_EVERY = 1.0


class Unsent(NamedTuple):
    """The number of commands that could not be sent, and the id of the first command. The commands are not kept."""

    number: int = 0
    first: str = ""


class BackgroundSender:
    """Sends commands and receives their outcomes, in its own thread.

    A resent command keeps its id, so it is decided once, however often it is sent.
    """

    def __init__(self, connection: Connection, partitioner: Partitioner) -> None:
        self._connection, self._partitioner = connection, partitioner
        self._new: SimpleQueue[PendingOutcome | None] = SimpleQueue()  # None: close
        self._open: dict[int, PendingOutcome] = {}  # without an outcome, by command number
        self._again: list[PendingOutcome] = []  # commands to send with the next connection
        self._unsent = Unsent()
        self._closing = False
        self._lost = False  # a command was not delivered: reconnect
        self._met = False  # a broker has answered at least once
        self._tidied = 0.0
        self._thread = threading.Thread(target=self._run, name="cqrs client", daemon=True)
        self._thread.start()

    def submit(self, command: PendingOutcome) -> None:
        """Queue a command for sending."""
        self._new.put(command)

    def close(self) -> Unsent:
        """Wait until all commands are in the log, then stop. Return the commands that could not be sent."""
        self._new.put(None)
        self._thread.join()
        for command in self._open.values():
            command.fail(
                NoOutcomeError(
                    f"the client was closed before command {command.id} had an outcome",
                    "to send it again with the same id is safe",
                )
            )
        return self._unsent

    def _run(self) -> None:
        while not self._closing or self._again:
            try:
                with (
                    CommandProducer(self._connection, self._partitioner) as producer,
                    OutcomeWaiter(self._connection, producer) as waiter,
                ):
                    self._exchange(producer, waiter)
            except CqrsError as error:
                self._disconnected(error)
            except Exception as bug:  # if the thread ended without a report, every caller would wait
                self._disconnected(CqrsError(f"{type(bug).__name__}: {bug}"))
            if self._again:
                time.sleep(_TIDY_EVERY)
                self._give_up(lambda command: command.deadline < time.monotonic())

    def _exchange(self, producer: CommandProducer, waiter: OutcomeWaiter) -> None:
        """Send commands and receive outcomes until a connection is lost, or the client closes."""
        self._lost = False
        while not self._lost:
            self._again += self._taken(0.0 if self._open or self._again else _IDLE)
            while self._again:
                self._send(waiter, self._again.pop(0))
            if self._closing:
                producer.flush()
                self._hand_out(waiter, 0.0)
                break
            producer.poll()
            self._hand_out(waiter, _LOOK_EVERY if self._open else 0.0)
            self._tidy(waiter)
        if self._lost:
            raise UnavailableError("a command was not delivered")

    def _taken(self, within: float) -> list[PendingOutcome]:
        """Return the submitted commands; wait at most `within` seconds for the first command."""
        taken: list[PendingOutcome] = []
        try:
            while not self._closing:
                wait = within > 0 and not taken
                command = self._new.get(block=wait, timeout=within if wait else None)
                if command is None:
                    self._closing = True
                else:
                    taken.append(command)
        except Empty:
            pass
        return taken

    def _send(self, waiter: OutcomeWaiter, command: PendingOutcome) -> None:
        def failed(error: CqrsError) -> None:
            if isinstance(error, UnavailableError):
                command.failure, self._lost = error, True
                return
            for number in [number for number, one in self._open.items() if one is command]:
                waiter.forget(number)
                del self._open[number]
            self._fail(command, error)

        composed = command.composed
        key = composed.subject.encode()
        try:
            number = waiter.send(command.topics, key, composed.value, composed.id, failed)
        except PayloadUnavailableError as error:  # the broker answers: go on with other commands
            self._fail(command, error)
            return
        except UnavailableError:
            self._again.insert(0, command)  # keep the order
            raise
        except CqrsError as error:
            self._fail(command, error)
            return
        self._met = True
        self._open[number] = command

    def _fail(self, command: PendingOutcome, error: CqrsError) -> None:
        self._unsent = Unsent(self._unsent.number + 1, self._unsent.first or command.id)
        command.fail(error)

    def _hand_out(self, waiter: OutcomeWaiter, timeout: float) -> None:
        for outcome in waiter.arrived(timeout):
            command = self._open.pop(outcome.number)
            command.arrive(CommandOutcome.read(outcome.read, command.composed))

    def _tidy(self, waiter: OutcomeWaiter) -> None:
        """Forget commands whose deadline has passed: their callers no longer wait."""
        now = time.monotonic()
        if now - self._tidied > _TIDY_EVERY:
            self._tidied = now
            for number in [number for number, command in self._open.items() if command.deadline < now]:
                waiter.forget(number)
                del self._open[number]

    def _disconnected(self, error: CqrsError) -> None:
        """Keep commands without an outcome for the next connection; fail them if a retry cannot help."""
        self._again += self._open.values()
        self._open = {}
        for command in self._again:
            command.failure = command.failure or error
        if not (self._met and isinstance(error, UnavailableError)):
            self._give_up(lambda command: True)

    def _give_up(self, hopeless: Callable[[PendingOutcome], bool]) -> None:
        """Fail the hopeless commands, and keep the others for the next connection."""
        kept = [command for command in self._again if not hopeless(command)]
        for command in self._again:
            if command not in kept and command.failure is not None:
                self._fail(command, command.failure)
        self._again = kept
