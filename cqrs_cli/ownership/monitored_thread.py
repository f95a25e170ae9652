"""A partition's thread, as seen by the task that started it."""

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
from cqrs_cli.ownership.claim import Claim
from cqrs_cli.ownership.session import Session
from cqrs_cli.ownership.timing import Timing
from cqrs_cli.telemetry.datagrams import Address


class MonitoredThread(ABC):
    """A partition's thread: its current record, the reason why it waits, and its result."""

    #: Words for messages: the record that the user's code processes (command), and the processing (is being decided).
    noun: ClassVar[str]
    doing: ClassVar[str]

    place: str  # the partition's name in messages
    folder: Path  # files for `cqrs status` on this machine are next to it
    mine: Claim
    timing: Timing
    stopping: threading.Event
    driver: Address | None  # receives its reports
    owner: Any  # the current owner, or the last

    clock: Callable[[], float] = staticmethod(time.monotonic)
    exit: Callable[[int], object] = staticmethod(os._exit)  # ends the whole process

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.error: CqrsError | None = None  # the error that ended it
        self.session: Session[Any] | None = None  # of the current owner
        # The reason why an owner cannot work, and the session of that owner.
        self._blocked: tuple[str, Session[Any] | None] = "", None
        self._looked = self._woke = self.clock()

    def let_go(self) -> None:
        """Drop the last owner, and with it its clients. The owner references its supervisor: in a worker that lives on,
        this reference cycle would keep the clients' threads.
        """
        self.owner = self.session = None

    @property
    def failed(self) -> bool:
        """True if its error ends the other threads of the task. A takeover does not: each owner works until its own
        partition is taken over.
        """
        return self.error is not None and not isinstance(self.error, TakenOverError)

    def end_if_stuck(self) -> None:
        """End the whole process if a call to the broker outlives its timeout, or if another process holds the shard in
        the middle of a change: neither will ever end. The driver submits a lost task again, and the new task
        quarantines the shard. Every crash is harmless, and so is this exit. To be called several times a second.
        """
        now, looked, self._looked = self.clock(), self._looked, self.clock()
        if now - looked > self.timing.paused:
            self._woke = now
        if what := self.stuck(now - self._woke):
            self.report(what, "ending the task")
            self.exit(os.EX_SOFTWARE)

    def stuck(self, awake: float) -> str:
        """Return the reason why its owner waits forever; empty if none is known.

        `awake`: seconds since this process started, or woke from a pause.
        """
        overdue = 0.0 if self.session is None else self.session.writer.overdue
        waits = overdue > self.timing.overdue and awake > self.timing.paused
        return "a call to the broker does not return" if waits else ""

    def report(self, what: object, then: str = "beginning again") -> None:
        """Write a line to the task's log."""
        kind = f"{type(what).__name__}: " if isinstance(what, BaseException) else ""
        print(f"{self.place}: {kind}{what}; {then}", file=sys.stderr, flush=True)

    def block(self, why: str) -> None:
        """Record why its owner waits, until a later owner has committed a batch."""
        self._blocked = why, self.session

    @property
    def blocked(self) -> str:
        """The reason why its owner cannot work; empty if there is none."""
        why, under = self._blocked
        return "" if self.session is not under and self.session is not None and self.session.useful else why

    def note(self, text: str) -> None:
        """Add a note for the operator, once."""
        if text not in self.notes:
            self.report(text, "")
            self.notes.append(text)

    @abstractmethod
    def news(self) -> list[bytes]:
        """Return the bodies of the report datagrams that are due now."""

    @abstractmethod
    def present(self) -> Record | None:
        """Return the record that the user's code is processing; None if there is none."""

    @abstractmethod
    def leave(self, change: Callable[[int, Claim], Claim | None]) -> None:
        """Fence the partition, and replace its claim (`retire.leave_claim`)."""
