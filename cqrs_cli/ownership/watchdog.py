"""Ends a task whose user's code does not end, and leaves word of the record in the claim."""

import faulthandler
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from cqrs_cli.core.messages.record import Record
from cqrs_cli.ownership.claim import Claim, Judgement, condemned, judge
from cqrs_cli.ownership.timing import Timing

#: The task's log.
_STDERR = 2


class CodeWatch(ABC):
    """Watches how long a partition's owner has been at one record. `what` is told of it: "is being decided"."""

    def __init__(self, timing: Timing, noun: str, what: str) -> None:
        self._timing, self._noun, self._what = timing, noun, what
        self._record: Record | None = None
        self._since = self._looked = time.monotonic()
        self._told = False

    def look(self) -> None:
        """To be called several times a second. Names a slow record, and ends the whole process for one that takes
        longer than `Timing.decide_timeout`: a thread cannot be ended alone.
        """
        now, looked, self._looked = time.monotonic(), self._looked, time.monotonic()
        record = self._present()
        if record is not self._record or now - looked > self._timing.paused:
            self._record, self._since = record, now
            self._tell_end()
        if record is None:
            return
        took = now - self._since
        if took > self._timing.slow and not self._told:
            self._told = True
            self._report(f"{self._noun} {record.offset} {self._what} for {took:.0f} s", "waiting")
            self._tell(record.offset, took)
        if took > self._timing.decide_timeout and self._condemn(record.offset, round(took)):
            self._report(f"{self._noun} {record.offset} does not end", "ending the task")
            os._exit(os.EX_SOFTWARE)

    def _tell_end(self) -> None:
        if self._told:
            self._told = False
            self._tell(None, 0.0)

    @abstractmethod
    def _present(self) -> Record | None:
        """The record that the user's code has now."""

    @abstractmethod
    def _report(self, what: str, then: str) -> None:
        """Write a line to the task's log."""

    @abstractmethod
    def _tell(self, offset: int | None, seconds: float) -> None:
        """Tell others on this machine of the slow record; None: there is none any more."""

    @abstractmethod
    def _condemn(self, offset: int, seconds: int) -> bool:
        """Leave a claim that blames the record, behind a fence; false if it was committed meanwhile.

        Without a broker the task ends all the same: then it is a death like others.
        """


#: Given a position and the claim there, the claim to leave; None to leave it as it is.
Leave = Callable[[int, Claim], Claim | None]


def blame(mine: Claim, offset: int, seconds: int, leave: Callable[[Leave], object]) -> bool:
    """Leave a claim that blames the record at this offset, if the present one is `mine`; false if it was committed
    meanwhile. `leave` calls what it is given behind a fence.
    """
    moved = False

    def condemn(at: int, claim: Claim) -> Claim | None:
        nonlocal moved
        moved = at > offset
        if moved or judge(mine, claim) is not Judgement.MINE:
            return None
        return condemned(claim, offset, seconds)

    leave(condemn)
    return not moved


class Watchdog:
    """Ends the process if its watch does not run, as when code in C holds the interpreter: no Python can notice.

    It begins when it is made: the first record of a thread may hold the interpreter before the first look.
    """

    def __init__(self, seconds: float) -> None:
        self._every = min(5.0, seconds / 2)
        self._seconds = seconds + self._every
        self._renewed = -self._every
        self.renew()

    def renew(self) -> None:
        """Say that the watch runs. The process's log gets a traceback of each thread if this is not said again."""
        if time.monotonic() - self._renewed >= self._every:
            self._renewed = time.monotonic()
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=_STDERR)

    def stop(self) -> None:
        faulthandler.cancel_dump_traceback_later()
