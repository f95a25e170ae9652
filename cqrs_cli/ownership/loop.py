"""The last step of an owner: poll, work, commit, until the target is reached or it is told to stop."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from cqrs_cli.core.messages.record import Record
from cqrs_cli.ownership.session import Session


class Loop(ABC):
    """One owner at work. `at`: the offset of the next record; `target`: where it ends, None for never."""

    def __init__(self, session: Session[Any], at: int, target: int | None) -> None:
        self.session, self.at, self.target = session, at, target
        self.left: list[Record] = []  # polled, but not in the batch that was cut
        self.stopping: Callable[[], bool] = lambda: False

    def run(self, stopping: Callable[[], bool]) -> None:
        """Work until the target is reached or `stopping()` says so."""
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
        """False once it was told to stop, or has reached its target."""
        return not self.stopping() and (self.target is None or self.at < self.target)

    @abstractmethod
    def begin(self) -> None:
        """Get ready to poll from `at`."""

    def do_what_is_due(self) -> None:
        """Do what time alone has made necessary."""
        return

    @abstractmethod
    def poll(self) -> list[Record]:
        """A batch of records, empty when none came in a moment."""

    @abstractmethod
    def work(self, records: list[Record]) -> None:
        """Work on as many of a batch's records as one transaction should have, and commit; moves `at`."""

    def rest(self) -> None:
        """Do what waits for a moment without records: the log has none now, or the loop ends."""
        return
