"""Ends a task whose user code does not end, and records the command or event in the claim."""

import faulthandler
import os
import time

from cqrs_cli.core.messages.record import Record
from cqrs_cli.ownership.claim import Claim, Judgement, condemned, judge
from cqrs_cli.ownership.monitored_thread import MonitoredThread
from cqrs_cli.ownership.trials.slow_command import tell_slow

#: File descriptor of the task's log.
_STDERR = 2


class CodeWatch:
    """Measures how long a partition's owner has worked on one record."""

    def __init__(self, watched: MonitoredThread) -> None:
        self._watched, self._timing = watched, watched.timing
        self._record: Record | None = None
        self._since = self._looked = watched.clock()
        self._told = False

    def look(self) -> None:
        """Check the current record; to be called several times a second. Reports a slow record, and ends the whole
        process if a record takes longer than `Timing.decide_timeout`, because a thread cannot be ended alone.
        """
        watched = self._watched
        now, looked, self._looked = watched.clock(), self._looked, watched.clock()
        record = watched.present()
        if record is not self._record or now - looked > self._timing.paused:
            self._record, self._since = record, now
            self._tell_end()
        if record is None:
            return
        took = now - self._since
        if took > self._timing.slow and not self._told:
            self._told = True
            what = f"{watched.noun} {record.offset} {watched.doing} for {took:.0f} s"
            watched.report(what, "waiting")
            tell_slow(watched.folder, record.offset, took)
        if took > self._timing.decide_timeout and self._condemn(record.offset, round(took)):
            watched.report(f"{watched.noun} {record.offset} does not end", "ending the task")
            watched.exit(os.EX_SOFTWARE)

    def _tell_end(self) -> None:
        if self._told:
            self._told = False
            tell_slow(self._watched.folder, None)

    def _condemn(self, offset: int, seconds: int) -> bool:
        """Fence the owner, and commit a claim that blames the record. Return False if the record was committed before.

        Without a broker return True, and the task ends all the same: its end then counts as any other death.
        """
        moved = False

        def condemn(at: int, claim: Claim) -> Claim | None:
            nonlocal moved
            moved = at > offset
            if moved or judge(self._watched.mine, claim) is not Judgement.MINE:
                return None
            return condemned(claim, offset, seconds)

        self._watched.leave(condemn)
        return not moved


class Watchdog:
    """Ends the process if the `CodeWatch` does not run: C code that holds the interpreter lock stops all Python code.

    The timer starts with the constructor: the first record of a thread may hold the lock before the first check.
    """

    def __init__(self, seconds: float) -> None:
        self._every = min(5.0, seconds / 2)
        self._seconds = seconds + self._every
        self._renewed = -self._every
        self.renew()

    def renew(self) -> None:
        """Restart the timer, because the watch runs. Without this call the process ends, and its log gets a traceback
        of each thread.
        """
        if time.monotonic() - self._renewed >= self._every:
            self._renewed = time.monotonic()
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=_STDERR)

    def stop(self) -> None:
        faulthandler.cancel_dump_traceback_later()
