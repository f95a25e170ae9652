"""Ends a task if the user's code hangs, and records the command or event in the claim."""

import faulthandler
import os
import time

from cqrs_cli.core.messages.record import Record
from cqrs_cli.observer import observing, reached
from cqrs_cli.ownership.claim import Claim, Judgement, judge, with_hung_command
from cqrs_cli.ownership.monitored_thread import MonitoredThread

#: File descriptor of the task's log.
_STDERR = 2


class HangDetector:
    """Measures how long a partition's owner works on one record, and ends the process if that takes too long."""

    def __init__(self, thread: MonitoredThread) -> None:
        self._thread, self._timing = thread, thread.timing
        self._record: Record | None = None
        self._began_at = self._last_check = thread.clock()
        self._is_reported = False

    def check_current_record(self) -> None:
        """Check the current record; the task calls this several times a second. Reports a slow record, and ends the
        whole process if a record takes longer than `Timing.decide_timeout`, because a thread cannot be ended alone.
        """
        thread = self._thread
        now, last_check, self._last_check = thread.clock(), self._last_check, thread.clock()
        record = thread.current_record()
        if record is not self._record or now - last_check > self._timing.pause_threshold:
            self._record, self._began_at = record, now
            self._report_end()
        if record is None:
            return
        seconds = now - self._began_at
        if seconds > self._timing.slow_after and not self._is_reported:
            self._is_reported = True
            event = f"{thread.noun} {record.offset} {thread.activity} for {seconds:.0f} s"
            thread.report(event, "waiting")
            with observing(*thread.listeners):
                reached("record.slow", offset=record.offset, seconds=seconds)
        if seconds > self._timing.decide_timeout and self._record_hang(record.offset, round(seconds)):
            thread.report(f"{thread.noun} {record.offset} does not end", "ending the task")
            thread.exit(os.EX_SOFTWARE)

    def _report_end(self) -> None:
        if self._is_reported:
            self._is_reported = False
            with observing(*self._thread.listeners):
                reached("record.continued")

    def _record_hang(self, offset: int, seconds: int) -> bool:
        """Fence the owner, and commit a claim that blames the record. Return False if the record is committed already.

        If no broker answers, return True, so that the task ends; its end then counts as a worker's death.
        """
        is_committed = False

        def claim_with_hang(position: int, claim: Claim) -> Claim | None:
            nonlocal is_committed
            is_committed = position > offset
            if is_committed or judge(self._thread.own_claim, claim) is not Judgement.OWN:
                return None
            return with_hung_command(claim, offset, seconds)

        self._thread.replace_claim(claim_with_hang)
        return not is_committed


class Watchdog:
    """Ends the process if `restart_timer` is not called for about `seconds`: C code that holds the interpreter lock
    stops all Python code, and so the `HangDetector`s.

    The timer starts with the constructor: the first record of a thread may hold the lock before the first check.
    """

    def __init__(self, seconds: float) -> None:
        self._renewal_interval = min(5.0, seconds / 2)
        self._seconds = seconds + self._renewal_interval
        self._renewed_at = -self._renewal_interval
        self.restart_timer()

    def restart_timer(self) -> None:
        """Restart the timer, because the hang detectors run. Without this call the process ends, and its log gets a
        traceback of each thread.
        """
        if time.monotonic() - self._renewed_at >= self._renewal_interval:
            self._renewed_at = time.monotonic()
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=_STDERR)

    def cancel_timer(self) -> None:
        faulthandler.cancel_dump_traceback_later()
