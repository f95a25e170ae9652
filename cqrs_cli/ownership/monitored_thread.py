"""The thread of a partition, which its task monitors."""

import os
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from cqrs_cli.core.messages.record import Record
from cqrs_cli.errors import CqrsError, TakenOverError
from cqrs_cli.observer import Listener
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.session import Session
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.telemetry.datagrams import DatagramSender, encode_message


class MonitoredThread(ABC):
    """A partition's thread: its current record, its listeners, and its result."""

    #: Words for messages, such as "command" and "is being decided": what the user's code processes, and its processing.
    noun: ClassVar[str]
    activity: ClassVar[str]

    label: str  # the partition's name in messages
    folder: Path  # the folder of the shard; `cqrs status` reads files next to it
    own_claim: Claim
    timing: Timing
    stopping: threading.Event
    sender: DatagramSender | None  # sends its reports and messages to the driver
    owner: Any  # the current or last owner
    listeners: tuple[Listener, ...] = ()  # they are called at the named points that the thread reaches

    clock: Callable[[], float] = staticmethod(time.monotonic)
    exit: Callable[[int], object] = staticmethod(os._exit)  # ends the whole process

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.error: CqrsError | None = None  # the error that ended the thread
        self.session: Session[Any] | None = None  # of the current owner
        self._last_check = self._resumed_at = self.clock()

    def drop_owner(self) -> None:
        """Drop the last owner with its clients. The owner and its supervisor reference each other, and this cycle would
        keep the threads of the clients alive in a worker process that continues.
        """
        self.owner = self.session = None

    @property
    def ends_task(self) -> bool:
        """True if the error of this thread ends the other threads of the task. A takeover does not end them: each owner
        works until its own partition is taken over.
        """
        return self.error is not None and not isinstance(self.error, TakenOverError)

    def end_if_stuck(self) -> None:
        """End the whole process if it would wait forever: if a call to the broker has still not returned long after its
        timeout, or if a stopped process (SIGSTOP) holds the shard in the middle of a change. The task calls this method
        several times a second.

        The exit does no more harm than a crash: the driver submits the lost task again, and the new task quarantines
        the shard.
        """
        now, last_check, self._last_check = self.clock(), self._last_check, self.clock()
        if now - last_check > self.timing.pause_threshold:
            self._resumed_at = now
        if reason := self.stuck_reason(now - self._resumed_at):
            self.report(reason, "ending the task")
            self.exit(os.EX_SOFTWARE)

    def stuck_reason(self, running_for: float) -> str:
        """Return the reason why the owner would wait forever; empty if there is no such reason.

        `running_for`: seconds since this process started, or continued after a pause.
        """
        overdue_seconds = 0.0 if self.session is None else self.session.writer.overdue_seconds
        is_stuck = overdue_seconds > self.timing.overdue_timeout and running_for > self.timing.pause_threshold
        return "a call to the broker does not return" if is_stuck else ""

    def report(self, event: object, reaction: str = "beginning again") -> None:
        """Write a line to the task's log: the event, and the reaction to it."""
        error_type = f"{type(event).__name__}: " if isinstance(event, BaseException) else ""
        print(f"{self.label}: {error_type}{event}; {reaction}", file=sys.stderr, flush=True)

    def add_note(self, text: str) -> None:
        """Add a note for the operator, once."""
        if text not in self.notes:
            self.report(text, "")
            self.notes.append(text)
            if self.sender is not None:
                self.sender.send_body(encode_message(text))

    def send_reports(self) -> None:
        """Send the reports that are due; to be called several times a second. An empty report only asks the driver
        whether the task is to end.
        """
        if self.sender is not None:
            for body in self.due_reports() or [b""]:
                self.sender.send_body(body)

    def received_end(self) -> bool:
        """Return True if the driver has answered that the task is to end."""
        return self.sender is not None and self.sender.received_end()

    def close_sender(self) -> None:
        """Send the reports for the last time, then close the sender."""
        self.send_reports()
        if self.sender is not None:
            self.sender.close()

    def due_reports(self) -> list[bytes]:
        """Return the bodies of the report datagrams that are due now."""
        return []

    @abstractmethod
    def current_record(self) -> Record | None:
        """Return the record that the user's code is processing; None if there is none."""

    @abstractmethod
    def replace_claim(self, change: Callable[[int, Claim], Claim | None]) -> None:
        """Fence the partition, and replace its claim (`retire.fence_and_replace_claim`)."""
