"""Ends a task whose aggregate's code does not end, and leaves word of the command in the claim."""

import faulthandler
import os
import time

from cqrs_cli.core.messages.record import Record
from cqrs_cli.jobs.run.retire import leave_claim
from cqrs_cli.owner.claim import Claim, Judgement, condemned, judge
from cqrs_cli.owner.supervisor import Supervisor
from cqrs_cli.owner.trials.slow import tell_slow

#: The task's log.
_STDERR = 2


class DecideWatch:
    """Watches how long a partition's owner has been deciding one command."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._timing = supervisor.timing
        self._shard = supervisor.plan.shard(supervisor.partition)
        self._record: Record | None = None
        self._since = self._looked = time.monotonic()
        self._told = False

    def look(self) -> None:
        """To be called several times a second. Names a slow command, and ends the whole process for one that takes
        longer than `Timing.decide_timeout`: a thread cannot be ended alone.
        """
        now, looked, self._looked = time.monotonic(), self._looked, time.monotonic()
        record = self._deciding()
        if record is not self._record or now - looked > self._timing.paused:
            self._record, self._since = record, now
            self._tell_end()
        if record is None:
            return
        took = now - self._since
        if took > self._timing.slow and not self._told:
            self._told = True
            self._supervisor.report(f"command {record.offset} is being decided for {took:.0f} s", "waiting")
            tell_slow(self._shard, record.offset, took)
        if took > self._timing.decide_timeout and self._condemn(record.offset, round(took)):
            self._supervisor.report(f"command {record.offset} does not end", "ending the task")
            os._exit(os.EX_SOFTWARE)

    def _deciding(self) -> Record | None:
        """The command that is being decided now."""
        owner = self._supervisor.owner
        batch = None if owner is None else owner.session.batch
        return None if batch is None else batch.deciding

    def _tell_end(self) -> None:
        if self._told:
            self._told = False
            tell_slow(self._shard, None)

    def _condemn(self, offset: int, seconds: int) -> bool:
        """Leave a claim that blames the command, behind a fence; false if it was committed meanwhile.

        Without a broker the task ends all the same: then it is a death like others.
        """
        supervisor, moved = self._supervisor, False

        def condemn(at: int, claim: Claim) -> Claim | None:
            nonlocal moved
            moved = at > offset
            if moved or judge(supervisor.mine, claim) is not Judgement.MINE:
                return None
            return condemned(claim, offset, seconds)

        leave_claim(supervisor.plan, supervisor.partition, condemn)
        return not moved


class Watchdog:
    """Ends the process if its watch does not run, as when code in C holds the interpreter: no Python can notice."""

    def __init__(self, seconds: float) -> None:
        self._every = min(5.0, seconds / 2)
        self._seconds = seconds + self._every
        self._renewed = -self._every

    def renew(self) -> None:
        """Say that the watch runs. The process's log gets a traceback of each thread if this is not said again."""
        if time.monotonic() - self._renewed >= self._every:
            self._renewed = time.monotonic()
            faulthandler.dump_traceback_later(self._seconds, exit=True, file=_STDERR)

    def stop(self) -> None:
        faulthandler.cancel_dump_traceback_later()
