"""A partition's thread, as the task that started it sees it."""

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


class Watched(ABC):
    """A partition's thread: where it stands, what it waits for, and how it ended."""

    #: The record that the user's code gets, and what the code does with it, in messages.
    noun: ClassVar[str]
    doing: ClassVar[str]

    place: str  # names the partition in messages
    folder: Path  # files for `status` on this machine lie beside it
    mine: Claim
    timing: Timing
    stopping: threading.Event
    driver: Address | None  # takes its news
    owner: Any  # the last one

    clock: Callable[[], float] = staticmethod(time.monotonic)
    exit: Callable[[int], object] = staticmethod(os._exit)  # ends the whole process

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.error: CqrsError | None = None  # what it ended with
        self.session: Session[Any] | None = None  # of the present owner
        # Why an owner is kept from its work, and the session of that owner.
        self._blocked: tuple[str, Session[Any] | None] = "", None
        self._looked = self._woke = self.clock()

    def let_go(self) -> None:
        """Drop the last owner, and with it its clients. It has been given ways to ask its supervisor: in a worker that
        lives on, such a circle would keep their threads.
        """
        self.owner = self.session = None

    @property
    def failed(self) -> bool:
        """True if its ending ends the others of its task. A takeover does not: each is at work until its own comes."""
        return self.error is not None and not isinstance(self.error, TakenOverError)

    def end_if_stuck(self) -> None:
        """End the whole process if a call to the broker outlives its timeout, or another process holds the shard in
        the middle of a change: neither will ever end, and the driver submits a lost task again, which then sets the
        shard aside. Every crash is harmless, this one too. To be called several times a second.
        """
        now, looked, self._looked = self.clock(), self._looked, self.clock()
        if now - looked > self.timing.paused:
            self._woke = now
        if what := self.stuck(now - self._woke):
            self.report(what, "ending the task")
            self.exit(os.EX_SOFTWARE)

    def stuck(self, awake: float) -> str:
        """The thing that its owner waits for and that will never come; empty if nothing is known.

        `awake`: seconds since this process began, or woke from a pause.
        """
        overdue = 0.0 if self.session is None else self.session.writer.overdue
        waits = overdue > self.timing.overdue and awake > self.timing.paused
        return "a call to the broker does not return" if waits else ""

    def report(self, what: object, then: str = "beginning again") -> None:
        """Write a line to the task's log."""
        kind = f"{type(what).__name__}: " if isinstance(what, BaseException) else ""
        print(f"{self.place}: {kind}{what}; {then}", file=sys.stderr, flush=True)

    def block(self, why: str) -> None:
        """Note what its owner waits for, until a later one has committed a batch."""
        self._blocked = why, self.session

    @property
    def blocked(self) -> str:
        """The reason that keeps its owner from its work; empty if there is none."""
        why, under = self._blocked
        return "" if self.session is not under and self.session is not None and self.session.useful else why

    def note(self, text: str) -> None:
        """Note a text for people, once."""
        if text not in self.notes:
            self.report(text, "")
            self.notes.append(text)

    @abstractmethod
    def news(self) -> list[bytes]:
        """The bodies of datagrams for the driver that are due now."""

    @abstractmethod
    def present(self) -> Record | None:
        """The record that the user's code has now."""

    @abstractmethod
    def leave(self, change: Callable[[int, Claim], Claim | None]) -> None:
        """Fence the partition and leave another claim there (`retire.leave_claim`)."""
