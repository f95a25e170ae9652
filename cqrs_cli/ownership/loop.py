"""The last step of an owner: poll, work and commit, until the target is reached or the owner is stopped."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from cqrs_cli.core.messages.record import Record
from cqrs_cli.ownership.session import Session


class Loop(ABC):
    """The loop of one owner. `at`: offset of the next record; `target`: offset at which it ends, None for never."""

    def __init__(self, session: Session[Any], at: int, target: int | None) -> None:
        self.session, self.at, self.target = session, at, target
        self.left: list[Record] = []  # polled records that the last batch left out
        self.stopping: Callable[[], bool] = lambda: False

    def run(self, stopping: Callable[[], bool]) -> None:
        """Work until the target is reached or `stopping()` returns True."""
        self.stopping, session, timing = stopping, self.session, self.session.timing
        self.begin()
        checked = refreshed = time.monotonic()
        while self.goes_on():
            self.do_what_is_due()
            if records := self.poll():
                with session.admitted(self.at, records[0].offset):
                    self.work(records)
                checked = time.monotonic()
                continue
            self.rest()
            if (now := time.monotonic()) - checked >= timing.idle_check:
                session.check_claim()
                refresh = now - refreshed > timing.offset_refresh
                if session.acquitted(self.at) or refresh or self.at != session.offset:
                    session.commit_position(self.at)
                    refreshed = now
                checked = now
        self.rest()
        if self.at != session.offset:
            session.commit_position(self.at)

    def goes_on(self) -> bool:
        """Return False once the loop is stopped, or has reached its target."""
        return not self.stopping() and (self.target is None or self.at < self.target)

    @abstractmethod
    def begin(self) -> None:
        """Prepare to poll from `at`."""

    def do_what_is_due(self) -> None:
        """Do work that is due by time, such as the resubmission of deferred commands."""
        return

    @abstractmethod
    def poll(self) -> list[Record]:
        """Return a batch of records; empty if none arrived within a moment."""

    @abstractmethod
    def work(self, records: list[Record]) -> None:
        """Process and commit as many records of a batch as one transaction may have; advances `at`."""

    def rest(self) -> None:
        """Do work that waits for a moment without records: the log has no record now, or the loop ends."""
        return
